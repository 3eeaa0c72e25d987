"""etcd's v3 API by its JSON gateway, from Debian's Python alone: V3(node).put(...). Keys and values are str.

An error of the API is a V3Error with its gRPC code; anything else that ends a call (OSError, HTTPException) leaves its
outcome unknown, as in cluster.py.
"""
import base64
import http.client
import json

INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE = 3, 8, 14


class V3Error(Exception):
    def __init__(self, code, message):
        super().__init__(f"{message} (code {code})")
        self.code, self.message = code, message


def encode(text):
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def decode(text):
    return base64.b64decode(text or "").decode()


class V3:
    def __init__(self, node, host="127.0.0.1"):
        self.node, self.host = node, host

    def post(self, path, body=None, timeout=15.0, deadline=None, idempotency_key=None):
        """deadline: seconds that the server is told; timeout: those after which this side gives up."""
        headers = {"Content-Type": "application/json"}
        if deadline is not None:
            headers["Grpc-Timeout"] = f"{int(deadline * 1000)}m"
        if idempotency_key is not None:
            headers["Rallypoint-Idempotency-Key"] = idempotency_key
        connection = http.client.HTTPConnection(self.host, self.node.client_port, timeout=timeout)
        try:
            connection.request("POST", "/v3" + path, body=json.dumps(body or {}), headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        fields = json.loads(text)
        if answer.status != 200:
            raise V3Error(fields["code"], fields["message"])
        return fields

    def put(self, key, value, lease=0, **how):
        return self.post("/kv/put", {"key": encode(key), "value": encode(value), "lease": lease}, **how)

    def range(self, key, range_end=None, serializable=False, revision=0, limit=0, **how):
        body = {"key": encode(key), "serializable": serializable, "revision": revision, "limit": limit}
        if range_end is not None:
            body["range_end"] = encode(range_end)
        answer = self.post("/kv/range", body, **how)
        return answer.get("kvs", [])

    def get(self, key, **how):
        """The value, or None."""
        pairs = self.range(key, **how)
        return decode(pairs[0].get("value")) if pairs else None

    def version(self, key, **how):
        """How often the key was written since it was made; 0 = it is not there."""
        pairs = self.range(key, **how)
        return int(pairs[0]["version"]) if pairs else 0

    def delete(self, key, range_end=None, **how):
        body = {"key": encode(key)}
        if range_end is not None:
            body["range_end"] = encode(range_end)
        return int(self.post("/kv/deleterange", body, **how).get("deleted", 0))

    def compare_and_set(self, key, old, new, **how):
        """old None = the key must not be there. True if it took effect."""
        if old is None:
            compare = {"key": encode(key), "target": "VERSION", "result": "EQUAL", "version": 0}
        else:
            compare = {"key": encode(key), "target": "VALUE", "result": "EQUAL", "value": encode(old)}
        body = {"compare": [compare], "success": [{"request_put": {"key": encode(key), "value": encode(new)}}]}
        return bool(self.post("/kv/txn", body, **how).get("succeeded", False))

    def compact(self, revision, **how):
        return self.post("/kv/compaction", {"revision": revision}, **how)

    def revision(self, **how):
        return int(self.post("/kv/range", {"key": encode("\0")}, **how)["header"]["revision"])

    def grant(self, ttl, lease=0, **how):
        return int(self.post("/lease/grant", {"TTL": ttl, "ID": lease}, **how)["ID"])

    def revoke(self, lease, **how):
        return self.post("/lease/revoke", {"ID": lease}, **how)

    def keep_alive(self, lease, **how):
        """The TTL that was renewed; 0 = there is no such lease."""
        return int(self.post("/lease/keepalive", {"ID": lease}, **how)["result"].get("TTL", 0))

    def time_to_live(self, lease, **how):
        """Seconds left; -1 = there is no such lease."""
        return int(self.post("/lease/timetolive", {"ID": lease}, **how).get("TTL", 0))

    def status(self, **how):
        return self.post("/maintenance/status", **how)

    def term(self, **how):
        return int(self.status(**how)["raftTerm"])

    def hash_kv(self, revision, **how):
        return int(self.post("/maintenance/hashkv", {"revision": revision}, **how)["hash"])

    def alarms(self, **how):
        return self.post("/maintenance/alarm", {"action": "GET"}, **how).get("alarms", [])

    def watch(self, key, range_end=None, start_revision=0, timeout=30.0):
        """Yields WatchResponses as they come; ends by an exception or the server's end of the stream."""
        create = {"key": encode(key), "start_revision": start_revision}
        if range_end is not None:
            create["range_end"] = encode(range_end)
        connection = http.client.HTTPConnection(self.host, self.node.client_port, timeout=timeout)
        try:
            connection.request("POST", "/v3/watch", body=json.dumps({"create_request": create}))
            answer = connection.getresponse()
            for line in iter(answer.readline, b""):
                fields = json.loads(line)
                if "error" in fields:
                    raise V3Error(fields["error"]["grpc_code"], fields["error"]["message"])
                yield fields["result"]
        finally:
            connection.close()
