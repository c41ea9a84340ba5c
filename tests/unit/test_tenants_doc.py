"""docs/tenants.md tells the format of the tenants file as it is read."""

import re
from pathlib import Path

import pytest
from annotated_types import Ge, Le, MaxLen
from pydantic import BaseModel

from streamscribe.core.rules import MAX_RULE_PHRASE_CHARS, MAX_RULE_PHRASES, RuleKind
from streamscribe.store.tenants import KeyEntry, RuleEntry, TenantEntry, read_tenants

TEXT = (Path(__file__).parents[2] / "docs/tenants.md").read_text()
TABLES = {"tenant": TenantEntry, "rule": RuleEntry, "key": KeyEntry}


def rows(of: str) -> dict[str, str]:
    """The lines of a table, by their fields."""
    table = TEXT.split(f"| of a {of} |")[1].split("\n\n")[0]
    return {name: line for line in table.splitlines() for name in re.findall(r"^\| `(\w+)` \|", line)}


@pytest.mark.parametrize(("of", "model"), TABLES.items())
def test_every_field_of_the_file_is_described_with_its_bounds_and_none_that_is_not_there(
    of: str, model: type[BaseModel]
) -> None:
    described = rows(of)
    assert list(described) == list(model.model_fields)
    for name, field in model.model_fields.items():
        least = [bound.ge for bound in field.metadata if isinstance(bound, Ge)]
        most = [bound.le for bound in field.metadata if isinstance(bound, Le)]
        for low, high in zip(least, most, strict=True):
            assert f"| {low:,} to {high:,} |" in described[name]
        for bound in field.metadata:
            if isinstance(bound, MaxLen):
                assert f"| {bound.max_length:,}" in described[name]
        assert ("| needed |" in described[name]) == field.is_required()


def test_bounds_that_are_not_of_one_field_are_told() -> None:
    rule = rows("rule")
    assert f"| {MAX_RULE_PHRASES:,} in all rules" in rule["phrases"]
    assert all(f"{MAX_RULE_PHRASE_CHARS} characters" in row for row in (rule["name"], rule["phrases"]))
    assert all(f"`{kind}`" in rule["kind"] for kind in RuleKind)


def test_the_example_is_read_and_has_every_field(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    file = tmp_path / "tenants.yaml"
    file.write_text(example)
    tenants = list(read_tenants(file).tenants.values())
    shown = set[str]().union(*(tenant.model_fields_set for tenant in tenants))
    assert shown == set(TenantEntry.model_fields)
    for parts, model in (
        ([rule for tenant in tenants for rule in tenant.rules], RuleEntry),
        ([key for tenant in tenants for key in tenant.keys], KeyEntry),
    ):
        assert set[str]().union(*(part.model_fields_set for part in parts)) == set(model.model_fields)
