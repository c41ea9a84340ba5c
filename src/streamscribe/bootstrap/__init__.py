"""The composition root: the only room that knows every adapter. It joins the parts and owns what runs."""

from streamscribe.bootstrap.platform import Platform, platform
from streamscribe.bootstrap.server import Listening, Role, serve

__all__ = ["Listening", "Platform", "Role", "platform", "serve"]
