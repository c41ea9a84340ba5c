"""The bench of texts."""

from streamscribe.bench import text_rules


def test_the_tables_hold_and_every_cost_is_told() -> None:
    found = text_rules.run()
    assert found.figures["itn_zh_failed"] == found.figures["itn_en_failed"] == 0
    costs = [name for name in found.figures if name.endswith("_us")]
    assert len(costs) == 3 * len(text_rules.LANGUAGES) * len(text_rules.LENGTHS)
    assert all(found.figures[name] > 0 for name in costs)
