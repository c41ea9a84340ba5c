"""Law 9: keys never cross tenants, and no two descriptions share one."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.cachekey import CacheKeys, encode
from streamscribe.core.ids import TenantId

KEYS = CacheKeys(b"0123456789abcdef")
ANN, BOB = TenantId("ann"), TenantId("bob")

fields = st.lists(st.one_of(st.none(), st.integers(), st.text(), st.binary()), max_size=5)
tenants = st.text(string.ascii_lowercase, min_size=1, max_size=3).map(TenantId)
kinds = st.text("ab", max_size=3)


def typed(values):
    return [(type(value), value) for value in values]


@given(fields, fields)
def test_the_encoding_is_injective(one, other):
    assert (encode(*one) == encode(*other)) == (typed(one) == typed(other))


@given(st.text(), st.integers(0, 10), st.integers(0, 10))
def test_the_boundary_between_two_fields_counts(text, cut, other_cut):
    same = text[:cut] == text[:other_cut]
    assert (encode(text[:cut], text[cut:]) == encode(text[:other_cut], text[other_cut:])) == same


@given(tenants, kinds, fields, tenants, kinds, fields)
def test_law_9_equal_keys_mean_equal_tenant_kind_and_fields(tenant, kind, one, other_tenant, other_kind, other):
    equal = KEYS.derive(tenant, kind, *one) == KEYS.derive(other_tenant, other_kind, *other)
    assert equal == ((tenant, kind, typed(one)) == (other_tenant, other_kind, typed(other)))


def test_law_9_one_tenant_hits_what_it_put_and_the_other_does_not():
    assert KEYS.derive(ANN, "text", b"audio", 1) == KEYS.derive(ANN, "text", b"audio", 1)
    assert KEYS.derive(ANN, "text", b"audio", 1) != KEYS.derive(BOB, "text", b"audio", 1)


def test_a_name_does_not_run_into_the_kind():
    assert KEYS.derive(TenantId("ann"), "abc") != KEYS.derive(TenantId("anna"), "bc")


def test_other_secrets_give_other_keys():
    assert CacheKeys(b"fedcba9876543210").derive(ANN, "text") != KEYS.derive(ANN, "text")


def test_a_key_is_safe_as_a_file_name():
    key = KEYS.derive(ANN, "../../etc", "\0/")
    assert len(key) == 64
    assert set(key) <= set(string.hexdigits.lower())


def test_a_short_secret_is_refused():
    with pytest.raises(ValueError, match="at least 16 bytes"):
        CacheKeys(b"short")


@given(tenants, tenants)
def test_law_9_an_owner_is_one_tenants_and_tells_no_name(tenant, other):
    assert (KEYS.owner(tenant) == KEYS.owner(other)) == (tenant == other)
    assert len({KEYS.owner(tenant), KEYS.owner(None), CacheKeys(b"another secret of it").owner(tenant)}) == 3
    assert len(KEYS.owner(tenant)) == 64


def test_what_has_no_tenant_has_keys_of_its_own():
    assert KEYS.derive(None, "kind", 1) != KEYS.derive(ANN, "kind", 1)
