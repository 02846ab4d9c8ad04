"""The page of real clients is what was measured, and what was measured is what the page is for."""

import json

from benchmarks.clients import CLIENTS, PAGE, RESULTS, page


def test_the_page_is_made_from_the_results():
    results = json.loads(RESULTS.read_text(encoding="utf-8"))

    assert sorted(results) == sorted(client.name for client in CLIENTS)
    assert PAGE.read_text(encoding="utf-8") == page(results)


def test_behind_ebbtide_every_client_ended_its_work_without_a_refusal_at_its_own_address():
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    wanted = {"is_done": True, "over": 0, "invalid": 0, "is_right_host": True, "is_right_summary": True}

    for name, entry in results.items():
        assert {key: entry["behind"][key] for key in wanted} == wanted, name
        assert not entry["direct"]["is_done"], f"{name} needs a smaller window: by itself it is not refused"
