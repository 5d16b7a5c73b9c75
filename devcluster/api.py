"""A very small client of the API server, for the few calls that bringing a cluster up takes."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from devcluster.profiles import Profile
from devcluster.shell import DevclusterError


class Api:
    """Requests as the cluster's administrator. A server that does not answer yet is status 0, not an error."""

    def __init__(self, profile: Profile) -> None:
        self._port = profile.api_port
        self._context = ssl.create_default_context(cafile=str(profile.pki / "ca.crt"))
        self._context.load_cert_chain(str(profile.pki / "admin.crt"), str(profile.pki / "admin.key"))

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Send one request; give status and body."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=10)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error).encode()
        finally:
            connection.close()

    def ok(self, path: str) -> bool:
        """Whether a GET of this path succeeds."""
        return self.request("GET", path)[0] == 200

    def get(self, path: str) -> dict[str, Any]:
        """The object or list at this path; {} if there is none."""
        status, body = self.request("GET", path)
        return dict(json.loads(body)) if status == 200 else {}

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object; one that is there already is left as it is."""
        status, answer = self.request("POST", path, body)
        if status not in (200, 201, 409):
            raise DevclusterError(f"creating {body['metadata']['name']}: {status} {answer.decode(errors='replace')}")

    def delete(self, path: str) -> None:
        """Delete an object; one that is gone already is fine."""
        status, answer = self.request("DELETE", path)
        if status not in (200, 202, 404):
            raise DevclusterError(f"deleting {path}: {status} {answer.decode(errors='replace')}")


def node_is_ready(node: dict[str, Any]) -> bool:
    """Whether a Node says that it is Ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
