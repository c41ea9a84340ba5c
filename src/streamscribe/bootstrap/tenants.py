"""Who may enter, from the settings."""

from streamscribe.settings import Settings, SettingsError
from streamscribe.store.keys import KeyFileError
from streamscribe.store.tenants import FileTenantStore


def open_tenants(settings: Settings) -> FileTenantStore | None:
    """The tenants of the file that the settings name; None where they name none.

    Raises SettingsError for a file, or a pepper, that cannot be used.
    """
    file = settings.gateway.tenants_file
    if file is None:
        return None
    try:
        return FileTenantStore(file, default_max_sessions=settings.limits.max_tenant_sessions)
    except KeyFileError as error:
        raise SettingsError(f"setting gateway.tenants_file: {error}") from None
