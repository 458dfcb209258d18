"""Priority classes over the API."""

from __future__ import annotations

from tests.control.cast import Cast, refused

PATH = "/priority-classes"


def test_four_classes_exist_from_the_start(cast: Cast) -> None:
    page = cast.reader("GET", PATH).json()
    assert page["items"] == [
        {"name": "critical", "rank": 0},
        {"name": "interactive", "rank": 1},
        {"name": "batch", "rank": 2},
        {"name": "background", "rank": 3},
    ]
    assert page["next"] is None


def test_an_admin_makes_changes_and_deletes_a_class(cast: Cast) -> None:
    response = cast.admin("POST", PATH, {"name": "nightly", "rank": 50, "reason": "reports"})
    assert response.status_code == 201
    assert response["Location"] == "/api/v1/priority-classes/nightly"
    refused(cast.admin("POST", PATH, {"name": "nightly", "rank": 5}), 409, "in-use")
    assert cast.admin("PATCH", f"{PATH}/nightly", {"rank": 60}).json() == {"name": "nightly", "rank": 60}
    assert cast.reader("GET", f"{PATH}/nightly").json()["rank"] == 60
    assert cast.admin("DELETE", f"{PATH}/nightly").status_code == 204
    refused(cast.admin("DELETE", f"{PATH}/nightly"), 404, "not-found")
    refused(cast.operator("POST", PATH, {"name": "x", "rank": 1}), 403, "forbidden")
    refused(cast.operator("DELETE", f"{PATH}/batch"), 403, "forbidden")


def test_ranks_names_and_their_number_are_bounded(cast: Cast) -> None:
    for rank in (-1, 100, True, "1", 1.5, None):
        refused(cast.admin("POST", PATH, {"name": "x", "rank": rank}), 400, "invalid", "rank")
    refused(cast.admin("POST", PATH, {"name": "x"}), 400, "invalid", "rank")
    refused(cast.admin("PATCH", f"{PATH}/batch", {"name": "bulk"}), 400, "invalid", "name")
    for number in range(12):
        assert cast.admin("POST", PATH, {"name": f"class-{number}", "rank": 99}).status_code == 201
    refused(cast.admin("POST", PATH, {"name": "one-more", "rank": 1}), 400, "invalid", "name")


def test_a_class_that_a_pool_or_a_share_names_stays(cast: Cast) -> None:
    cast.operator("POST", "/pools", {"name": "gpu", "capacity": 4, "default_priority": "batch"})
    cast.operator("PUT", "/pools/gpu/tenants/search", {"max_priority": "background"})
    assert "gpu" in refused(cast.admin("DELETE", f"{PATH}/batch"), 409, "in-use")["detail"]
    refused(cast.admin("DELETE", f"{PATH}/background"), 409, "in-use")
    assert cast.admin("DELETE", f"{PATH}/critical").status_code == 204
