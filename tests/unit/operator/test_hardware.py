from __future__ import annotations

from typing import get_args

import pytest

from kvpool_operator.api.pool import HardwareSpec
from kvpool_operator.platform.hardware import GIB, HARDWARE, LINKS, SERIES, Hardware

ROWS = list(HARDWARE.values())
ASCEND = [row for row in ROWS if row.protocol == "ascend"]


def test_the_api_offers_exactly_the_series_and_links_of_the_table() -> None:
    fields = HardwareSpec.model_fields
    assert get_args(fields["series"].annotation) == SERIES
    assert get_args(fields["link"].annotation) == LINKS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_names_its_source(row: Hardware) -> None:
    assert row.source


@pytest.mark.parametrize("row", ASCEND, ids=lambda row: row.name)
def test_hccn_conf_is_mounted_on_every_npu(row: Hardware) -> None:
    assert "/etc/hccn.conf" in {mount.path for mount in row.mounts}


@pytest.mark.parametrize("row", ASCEND, ids=lambda row: row.name)
def test_segments_are_whole_gibibytes_on_npus(row: Hardware) -> None:
    assert row.segment_alignment == GIB


def test_ub_and_uboe_exclude_each_other() -> None:
    names = {link: {name for name, _ in HARDWARE["A5", link].env} for link in ("UB", "UBOE")}
    assert names == {"UB": {"ASCEND_LOCAL_COMM_RES"}, "UBOE": {"ASCEND_GLOBAL_RESOURCE_CONFIG"}}


def test_fabric_memory_is_for_hccs_alone() -> None:
    fabric = [row.name for row in ROWS if ("ASCEND_ENABLE_USE_FABRIC_MEM", "1") in row.env]
    assert fabric == ["A3/HCCS"]
