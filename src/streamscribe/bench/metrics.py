"""What servers count, as a measurement asks for it beside the load that it makes in the same loop."""

import re
import ssl

import httpx

ANSWER_TIMEOUT_S = 60.0
_TRUSTED = ssl.create_default_context()
"""Made once: a client that makes its own stops the loop for 40 ms, and whoever is timed meanwhile."""


async def told(url: str) -> str:
    """All that the server at `url` counts, in lines. Raises httpx.HTTPError where it does not answer."""
    async with httpx.AsyncClient(timeout=ANSWER_TIMEOUT_S, verify=_TRUSTED) as http:
        return (await http.get(f"{url}/metrics")).text


async def counted(url: str, name: str) -> float:
    """The sum of a metric's samples, whatever their labels; 0 where there are none. Raises as `told`."""
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", await told(url), re.MULTILINE)
    return sum(map(float, found))
