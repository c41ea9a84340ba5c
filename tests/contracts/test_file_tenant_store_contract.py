"""The tenants file against the contract."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from streamscribe.control.keys import new_key
from streamscribe.store.tenants import FileTenantStore
from tests.contracts.tenant_store import TenantStoreContract


class TestFileTenantStore(TenantStoreContract):
    @pytest.fixture
    def keys(self, tmp_path: Path) -> Mapping[str, str]:
        return {tenant: new_key(tmp_path / "tenants.yaml", tenant) for tenant in ("acme", "other")}

    @pytest.fixture
    def store(self, tmp_path: Path, keys: Mapping[str, str]) -> FileTenantStore:
        return FileTenantStore(tmp_path / "tenants.yaml", default_max_sessions=5)
