"""What every `ports.TenantStore` promises; a test module per adapter gives `store` and `keys`."""

from collections.abc import Mapping

import pytest

from streamscribe.ports import TenantStore


class TenantStoreContract:
    """Fixtures to give: `store`, and `keys` of at least two tenants, by tenant id."""

    def test_each_key_opens_for_its_tenant_only(self, store: TenantStore, keys: Mapping[str, str]) -> None:
        for tenant_id, key in keys.items():
            tenant = store.authenticate(key)
            assert tenant is not None
            assert tenant.tenant_id == tenant_id
            assert tenant.max_sessions >= 1

    @pytest.mark.parametrize("change", [str.upper, str.lower, str.strip, lambda key: key[:-1], lambda key: key + "A"])
    def test_a_key_that_differs_in_anything_is_nobodys(
        self, store: TenantStore, keys: Mapping[str, str], change: type[str]
    ) -> None:
        for key in keys.values():
            if change(key) != key:
                assert store.authenticate(change(key)) is None

    @pytest.mark.parametrize("key", ["", "ss", "ss__", "ss_x_y", "\x00", "ss_字_字", "a" * 100_000])
    def test_what_is_no_key_is_nobodys_and_no_error(self, store: TenantStore, key: str) -> None:
        assert store.authenticate(key) is None

    def test_halves_of_two_keys_make_none(self, store: TenantStore, keys: Mapping[str, str]) -> None:
        (_, id_a, secret_a), (_, id_b, secret_b) = (key.split("_", 2) for key in list(keys.values())[:2])
        assert store.authenticate(f"ss_{id_a}_{secret_b}") is None
        assert store.authenticate(f"ss_{id_b}_{secret_a}") is None
