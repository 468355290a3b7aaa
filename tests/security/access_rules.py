"""Who may use what: the table that every resource, method and page has to be in.

It says what is wanted, independently of the code. A resource that is new in the code and not here
fails the tests, until somebody has decided who may use it.
"""

from __future__ import annotations

from typing import Final

TAGS: Final = ("none", "management", "policymaker", "monitoring", "administrator")
ANY_TAG: Final = frozenset(TAGS) - {"none"}
MONITORS: Final = frozenset({"monitoring", "administrator"})
POLICYMAKERS: Final = frozenset({"policymaker", "administrator"})
ADMINISTRATORS: Final = frozenset({"administrator"})

# Audiences: the tags in a virtual host that the user may log in to, and in one that it may not.
# Without a virtual host in the path the first counts.
AUDIENCES: Final = {
    "everybody": (frozenset(TAGS), frozenset(TAGS)),
    "any tag": (ANY_TAG, ANY_TAG),
    "tenants": (ANY_TAG, ADMINISTRATORS),
    "tenants only": (ANY_TAG, frozenset[str]()),
    "viewers": (ANY_TAG, MONITORS),
    "monitors": (MONITORS, MONITORS),
    "policymakers": (POLICYMAKERS, ADMINISTRATORS),
    "global policymakers": (POLICYMAKERS, POLICYMAKERS),
    "administrators": (ADMINISTRATORS, ADMINISTRATORS),
}

_HTTP: Final = {
    "everybody": "/auth",
    "any tag": """
        /cluster-name /extensions /channels /channels/{channel} /connections
        /connections/{connection} /connections/{connection}/channels /connections/username/{user}
        /consumers /consumers/{vhost} /health/checks/alarms /health/checks/local-alarms
        /health/checks/port-listener/{port} /health/checks/protocol-listener/{protocol}
        /health/checks/certificate-expiration/{within}/{unit} /health/checks/virtual-hosts
        /health/checks/node-is-quorum-critical /health/checks/node-is-mirror-sync-critical
        /health/checks/all-members-running /health/checks/all-queues-available
        /health/checks/all-copies-present /health/checks/is-in-service /healthchecks/node
        /healthchecks/node/{node} /overview /vhosts /warren/page-sessions/{session}
        /warren/redundancy /whoami""",
    "tenants only": "/aliveness-test/{vhost}",
    "tenants": """
        /bindings /bindings/{vhost} /bindings/{vhost}/e/{source}/{kind}/{destination}
        /bindings/{vhost}/e/{source}/{kind}/{destination}/{properties_key}
        /queues/{vhost}/{queue}/bindings /exchanges/{vhost}/{exchange}/bindings/source
        /exchanges/{vhost}/{exchange}/bindings/destination /exchanges /exchanges/{vhost}
        /exchanges/{vhost}/{exchange} /exchanges/{vhost}/{exchange}/publish /policies
        /policies/{vhost} /operator-policies /operator-policies/{vhost} /queues /queues/{vhost}
        /queues/{vhost}/{queue} /queues/{vhost}/{queue}/contents /queues/{vhost}/{queue}/get
        /queues/quorum/{vhost}/{queue}/status /vhosts/{vhost}/channels /vhosts/{vhost}/connections
        /warren/dead-letters /warren/dead-letters/{vhost}
        /warren/exchanges/{vhost}/{exchange}/explain-policy
        /warren/queues/{vhost}/{queue}/browse /warren/queues/{vhost}/{queue}/dead-letters
        /warren/queues/{vhost}/{queue}/explain-policy /warren/queues/{vhost}/{queue}/move
        /warren/queues/{vhost}/{queue}/redrive /warren/queues/{vhost}/{queue}/ring
        /warren/queues/{vhost}/{queue}/snapshot /warren/queues/{vhost}/{queue}/snapshot/cuts
        /warren/queues/{vhost}/{queue}/story /warren/stream-names/{vhost} /warren/streams
        /warren/streams/{vhost} /warren/streams/{vhost}/{queue}
        /warren/streams/{vhost}/{queue}/cuts /warren/streams/{vhost}/{queue}/groups
        /warren/streams/{vhost}/{queue}/groups/{group} /warren/streams/{vhost}/{queue}/records
        /warren/super-streams /warren/super-streams/{vhost}
        /warren/super-streams/{vhost}/{exchange}""",
    "viewers": "/vhost-limits /vhost-limits/{vhost} /user-limits /user-limits/{user}",
    "monitors": """
        /nodes /nodes/{node} /nodes/{node}/memory /nodes/{node}/memory/relative /warren/alarms
        /warren/cluster /warren/history/nodes""",
    "policymakers": """
        /parameters /parameters/{component} /parameters/{component}/{vhost}
        /parameters/{component}/{vhost}/{name} /policies/{vhost}/{name}
        /warren/policies/{vhost}/dry-run""",
    "global policymakers": "/global-parameters /global-parameters/{name}",
    "administrators": """
        /all-configuration /definitions /definitions/{vhost} /feature-flags
        /feature-flags/{name}/enable /operator-policies/{vhost}/{name} /permissions
        /permissions/{vhost}/{user} /queues/{vhost}/{queue}/actions
        /queues/quorum/{vhost}/{queue}/replicas/add /queues/quorum/{vhost}/{queue}/replicas/delete
        /queues/quorum/replicas/on/{node}/grow /queues/quorum/replicas/on/{node}/shrink
        /rebalance/queues /reset /reset/{node} /topic-permissions
        /topic-permissions/{vhost}/{user} /topic-permissions/{vhost}/{user}/{exchange}
        /user-limits/{user}/{name} /users /users/bulk-delete /users/without-permissions
        /users/{user} /users/{user}/permissions /users/{user}/topic-permissions
        /vhost-limits/{vhost}/{name} /vhosts/{vhost} /vhosts/{vhost}/permissions
        /vhosts/{vhost}/start/{node} /vhosts/{vhost}/topic-permissions
        /warren/access/check /warren/cluster/members/{member} /warren/environment
        /warren/nodes/{node}/diagnostics/{facts} /warren/nodes/{node}/disk-free-limit
        /warren/nodes/{node}/listeners /warren/nodes/{node}/log-level
        /warren/nodes/{node}/log-rotation /warren/nodes/{node}/losses
        /warren/nodes/{node}/maintenance /warren/nodes/{node}/reset
        /warren/nodes/{node}/resolve/{host} /warren/nodes/{node}/stop
        /warren/nodes/{node}/vm-memory-high-watermark /warren/operator-policies/{vhost}/dry-run
        /warren/rebalance""",
}
HTTP: Final = {path: audience for audience, paths in _HTTP.items() for path in paths.split()}

# What can be asked of a resource besides to look at it; of all others only that. So a change that
# is new at an address that is known has to be decided upon, too.
_METHODS: Final = {
    "DELETE": """
        /queues/quorum/replicas/on/{node}/shrink /queues/quorum/{vhost}/{queue}/replicas/delete
        /queues/{vhost}/{queue}/contents /reset /reset/{node} /warren/cluster/members/{member}
        /warren/page-sessions/{session}""",
    "GET DELETE": """
        /bindings/{vhost}/e/{source}/{kind}/{destination}/{properties_key}
        /connections/username/{user} /connections/{connection}""",
    "GET POST": """
        /all-configuration /bindings/{vhost}/e/{source}/{kind}/{destination} /definitions
        /definitions/{vhost}""",
    "GET PUT": "/cluster-name /warren/nodes/{node}/listeners",
    "GET PUT DELETE": """
        /exchanges/{vhost}/{exchange} /global-parameters/{name} /operator-policies/{vhost}/{name}
        /parameters/{component}/{vhost}/{name} /permissions/{vhost}/{user} /policies/{vhost}/{name}
        /queues/{vhost}/{queue} /topic-permissions/{vhost}/{user}
        /topic-permissions/{vhost}/{user}/{exchange} /users/{user} /vhosts/{vhost}
        /warren/streams/{vhost}/{queue}/groups/{group} /warren/super-streams/{vhost}/{exchange}""",
    "POST": """
        /exchanges/{vhost}/{exchange}/publish /queues/quorum/replicas/on/{node}/grow
        /queues/quorum/{vhost}/{queue}/replicas/add /queues/{vhost}/{queue}/actions
        /queues/{vhost}/{queue}/get /rebalance/queues /users/bulk-delete
        /vhosts/{vhost}/start/{node} /warren/access/check /warren/nodes/{node}/log-rotation
        /warren/nodes/{node}/reset /warren/nodes/{node}/stop
        /warren/operator-policies/{vhost}/dry-run /warren/policies/{vhost}/dry-run
        /warren/queues/{vhost}/{queue}/move /warren/queues/{vhost}/{queue}/redrive
        /warren/rebalance""",
    "PUT": """
        /feature-flags/{name}/enable /warren/nodes/{node}/disk-free-limit
        /warren/nodes/{node}/log-level /warren/nodes/{node}/maintenance
        /warren/nodes/{node}/vm-memory-high-watermark""",
    "PUT DELETE": "/user-limits/{user}/{name} /vhost-limits/{vhost}/{name}",
}
HTTP_METHODS: Final = dict.fromkeys(HTTP, "GET") | {
    path: methods for methods, paths in _METHODS.items() for path in paths.split()
}

# Addresses of a node that are neither resources nor pages, and what guards them. Metrics are open,
# or as `warren.http_metrics` says; the rest leads elsewhere.
ROUTES: Final = {
    "/api/health/checks/ready": "everybody",
    "/metrics": "warren.http_metrics",
    "/metrics/per-object": "warren.http_metrics",
    "/metrics/detailed": "warren.http_metrics",
    "/api": "the resources",
    "": "the pages",
    **dict.fromkeys(("/api/", "/api/index.html", "/doc/stats.html", "/cli", "/cli/"), "everybody"),
}

# Changes that fewer may make than may look.
HTTP_CHANGES: Final = {"PUT /cluster-name": "administrators"}

# Rights in the virtual host that a request about a queue or an exchange takes besides; those that
# are not here take none: whoever may log in to the virtual host sees names and figures.
HTTP_RIGHTS: Final = {
    "POST /bindings/{vhost}/e/{source}/{kind}/{destination}": "write read",
    "DELETE /bindings/{vhost}/e/{source}/{kind}/{destination}/{properties_key}": "write read",
    "PUT /exchanges/{vhost}/{exchange}": "configure",
    "DELETE /exchanges/{vhost}/{exchange}": "configure",
    "POST /exchanges/{vhost}/{exchange}/publish": "write",
    "PUT /queues/{vhost}/{queue}": "configure",
    "DELETE /queues/{vhost}/{queue}": "configure",
    "DELETE /queues/{vhost}/{queue}/contents": "read",
    "POST /queues/{vhost}/{queue}/get": "read",
    "GET /warren/queues/{vhost}/{queue}/browse": "read",
    "GET /warren/queues/{vhost}/{queue}/dead-letters": "read",
    "POST /warren/queues/{vhost}/{queue}/move": "read",
    "POST /warren/queues/{vhost}/{queue}/redrive": "read",
    "GET /warren/queues/{vhost}/{queue}/snapshot": "read",
    "GET /warren/queues/{vhost}/{queue}/snapshot/cuts": "read",
    "GET /warren/streams/{vhost}/{queue}": "read",
    "GET /warren/streams/{vhost}/{queue}/cuts": "read",
    "GET /warren/streams/{vhost}/{queue}/groups": "read",
    "GET /warren/streams/{vhost}/{queue}/groups/{group}": "read",
    "PUT /warren/streams/{vhost}/{queue}/groups/{group}": "read",
    "DELETE /warren/streams/{vhost}/{queue}/groups/{group}": "read",
    "GET /warren/streams/{vhost}/{queue}/records": "read",
    "PUT /warren/super-streams/{vhost}/{exchange}": "configure write read",
    "DELETE /warren/super-streams/{vhost}/{exchange}": "configure",
}

_OF_THE_CHANNEL: Final = (
    "Access.Request", "Channel.Close", "Channel.Flow", "Confirm.Select", "Tx.Select", "Tx.Commit",
    "Tx.Rollback", "Basic.Qos", "Basic.Cancel", "Basic.Ack", "Basic.Nack", "Basic.Reject",
    "Basic.Recover", "Basic.RecoverAsync",
)  # fmt: skip
# Rights that a method of AMQP takes; nothing: it concerns the client's own channel only.
AMQP: Final = {
    "Exchange.Declare": "configure",
    "Exchange.Delete": "configure",
    "Exchange.Bind": "write read",
    "Exchange.Unbind": "write read",
    "Queue.Declare": "configure",
    "Queue.Delete": "configure",
    "Queue.Bind": "write read",
    "Queue.Unbind": "write read",
    "Queue.Purge": "read",
    "Basic.Consume": "read",
    "Basic.Get": "read",
    "Basic.Publish": "write",
    **dict.fromkeys(_OF_THE_CHANNEL, ""),
}

# The page, but for what is open to everybody: the audience of `GET PATH` and `POST PATH`. Things
# in a virtual host that is not the user's are shown to administrators, and their messages are not.
_PAGES: Final = {
    "any tag": """
        GET:/ GET:/index.html GET:/connections GET:/connections/{connection} GET:/channels
        POST:/connections/{connection}/close GET:/channels/{channel} GET:/exchanges GET:/queues
        GET:/dead-letters GET:/policies GET:/policies/explain GET:/streams POST:/logout""",
    "monitors": "GET:/overview/plots GET:/nodes GET:/nodes/{node}",
    "tenants": """
        GET:/exchanges/{vhost}/{exchange} GET:/queues/{vhost}/{queue}
        GET:/queues/{vhost}/{queue}/explain POST:/exchanges POST:/exchanges/{vhost}/{exchange}/bind
        POST:/exchanges/{vhost}/{exchange}/delete POST:/exchanges/{vhost}/{exchange}/publish
        POST:/exchanges/{vhost}/{exchange}/unbind POST:/queues POST:/queues/{vhost}/{queue}/bind
        POST:/queues/{vhost}/{queue}/delete POST:/queues/{vhost}/{queue}/get
        POST:/queues/{vhost}/{queue}/move POST:/queues/{vhost}/{queue}/publish
        POST:/queues/{vhost}/{queue}/purge POST:/queues/{vhost}/{queue}/unbind
        POST:/dead-letters/{vhost}/{queue}/redrive POST:/streams/{vhost}/{queue}/groups
        POST:/streams/{vhost}/{queue}/groups/delete""",
    "tenants only": """
        GET:/queues/{vhost}/{queue}/browse GET:/dead-letters/{vhost}/{queue}/preview""",
    "policymakers": "POST:/policies POST:/policies/dry-run POST:/policies/delete",
    "administrators": """
        GET:/admin GET:/admin/definitions POST:/admin/definitions POST:/admin/users
        POST:/admin/users/delete POST:/admin/permissions POST:/admin/permissions/delete
        POST:/admin/vhosts POST:/admin/vhosts/delete POST:/admin/limits POST:/nodes/{node}/limits
        POST:/nodes/{node}/maintenance POST:/queues/{vhost}/{queue}/sync""",
}
PAGES_FOR: Final = {
    place.replace(":", " ", 1): audience
    for audience, places in _PAGES.items()
    for place in places.split()
}

OPEN_PAGES: Final = {
    "/static/{file}",
    "/static/{folder}/{file}",
    "/login",
    "/login/openid",
    "/login/openid/callback",
    "/api/index.html",
    "/cli/index.html",
}
