"""Files of Erlang terms set the same settings as rabbitmq.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.config.file import ConfigError, ConfigFile, parse_config, read_config_files
from warren.config.values import Endpoint

NOTES = (
    "{vm_memory_high_watermark, 0.4}",
    "{vm_memory_high_watermark_paging_ratio, 0.75}",
    "{disk_free_limit, 50000000}",
)


def of_rabbit(keys: str) -> ConfigFile:
    return parse_config(f"[{{rabbit, [{keys}]}}].", "rabbitmq.config")


def problems_of(content: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(content, "rabbitmq.config")
    return str(caught.value).splitlines()


def test_c118_the_settings_of_memory_and_disk_are_read() -> None:
    config = of_rabbit(", ".join(NOTES)).config()
    assert (config.memory_watermark, config.memory_paging_ratio) == (0.4, 0.75)
    assert config.disk_free_limit_bytes == 50_000_000


def test_c122_a_ratio_above_one_is_taken_in_both_formats() -> None:
    key = "vm_memory_high_watermark_paging_ratio"
    assert of_rabbit(f"{{{key}, 1.5}}").config().memory_paging_ratio == 1.5
    assert parse_config(f"{key} = 1.5", "rabbitmq.conf").config().memory_paging_ratio == 1.5


@pytest.mark.parametrize(
    ("erlang", "lines"),
    [
        ("{heartbeat, 30}", "heartbeat = 30"),
        ("{tcp_listeners, [5672]}", "listeners.tcp.1 = 5672"),
        (
            '{tcp_listeners, [{"127.0.0.1", 5672}, {"::1", 5672}]}',
            "listeners.tcp.1 = 127.0.0.1:5672\nlisteners.tcp.2 = [::1]:5672",
        ),
        ("{tcp_listeners, []}", "listeners.tcp = none"),
        ("{ssl_listeners, [5671]}", "listeners.ssl.1 = 5671"),
        (
            ('{ssl_options, [{cacertfile, "ca.pem"}, {certfile, "c.pem"}, {keyfile, "k.pem"},'
            " {verify, verify_peer}, {fail_if_no_peer_cert, true}, {depth, 2},"
            " {versions, ['tlsv1.2', 'tlsv1.3']}]}"),
            ("ssl_options.cacertfile = ca.pem\nssl_options.certfile = c.pem\n"
            "ssl_options.keyfile = k.pem\nssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = true\nssl_options.depth = 2\n"
            "ssl_options.versions.1 = tlsv1.2\nssl_options.versions.2 = tlsv1.3"),
        ),
        (
            "{auth_mechanisms, ['PLAIN', 'EXTERNAL']}",
            "auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL",
        ),
        ("{loopback_users, []}", "loopback_users = none"),
        (
            '{loopback_users, [<<"guest">>, "root"]}',
            "loopback_users.guest = true\nloopback_users.root = true",
        ),
        ('{default_user, <<"ann">>}', "default_user = ann"),
        ("{default_user_tags, [monitoring]}", "default_user_tags.monitoring = true"),
        (
            '{default_permissions, [<<"a">>, <<"b">>, <<"">>]}',
            ("default_permissions.configure = a\ndefault_permissions.write = b\n"
            "default_permissions.read ="),
        ),
        ('{vm_memory_high_watermark, {absolute, "2GB"}}',
         "vm_memory_high_watermark.absolute = 2GB"),
        ("{vm_memory_high_watermark, {absolute, 2000}}",
         "vm_memory_high_watermark.absolute = 2000"),
        ("{vm_memory_high_watermark, 1}", "vm_memory_high_watermark.relative = 1"),
        ('{disk_free_limit, "50MB"}', "disk_free_limit.absolute = 50MB"),
        ("{disk_free_limit, {mem_relative, 1.5}}", "disk_free_limit.relative = 1.5"),
        ("{connection_max, infinity}", "connection_max = 0"),
        ("{consumer_timeout, undefined}", "consumer_timeout = 0"),
        ("{cluster_partition_handling, autoheal}", "cluster_partition_handling = autoheal"),
        (
            "{cluster_partition_handling, {pause_if_all_down, ['a@b'], ignore}}",
            ("cluster_partition_handling = pause_if_all_down\n"
            "cluster_partition_handling.pause_if_all_down.recover = ignore\n"
            "cluster_partition_handling.pause_if_all_down.nodes.1 = a@b"),
        ),
        ('{queue_master_locator, <<"min-masters">>}', "queue_master_locator = min-masters"),
        (
            "{tcp_listen_options, [{backlog, 64}, {nodelay, true}, {linger, {true, 0}}]}",
            ("tcp_listen_options.backlog = 64\ntcp_listen_options.nodelay = true\n"
            "tcp_listen_options.linger.on = true\ntcp_listen_options.linger.timeout = 0"),
        ),
        ("{log_levels, [{connection, error}]}", "log.connection.level = error"),
        (
            ("{log, [{console, [{enabled, true}, {level, warning}]},"
            ' {file, [{file, "x.log"}]}, {categories, [{queue, [{level, error}]}]}]}'),
            ("log.console = true\nlog.console.level = warning\nlog.file = x.log\n"
            "log.queue.level = error"),
        ),
        ("{num_tcp_acceptors, 10}", "num_acceptors.tcp = 10"),
        ("{auth_backends, [rabbit_auth_backend_internal]}",
         "auth_backends.1 = rabbit_auth_backend_internal"),
        ("proxy_protocol", "proxy_protocol = true"),
    ],
)  # fmt: skip
def test_a_key_of_rabbit_says_what_these_lines_of_rabbitmq_conf_say(
    erlang: str, lines: str
) -> None:
    assert of_rabbit(erlang) == parse_config(lines, "rabbitmq.conf")


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        (
            '{rabbitmq_management, [{listener, [{port, 12345}, {ip, "127.0.0.1"}]}]}',
            "management.tcp.port = 12345\nmanagement.tcp.ip = 127.0.0.1",
        ),
        (
            (
                "{rabbitmq_management, [{listener, [{port, 15671}, {ssl, true},"
                ' {ssl_opts, [{certfile, "c.pem"}, {keyfile, "k.pem"}]}]}]}'
            ),
            (
                "management.ssl.port = 15671\nmanagement.ssl.certfile = c.pem\n"
                "management.ssl.keyfile = k.pem"
            ),
        ),
        (
            (
                "{rabbitmq_management, [{tcp_config, [{port, 8080}, {ip, {10, 0, 0, 1}},"
                " {cowboy_opts, [{idle_timeout, 1000}]}]}]}"
            ),
            (
                "management.tcp.port = 8080\nmanagement.tcp.ip = 10.0.0.1\n"
                "management.tcp.idle_timeout = 1000"
            ),
        ),
        (
            "{rabbitmq_management, [{ssl_config, [{port, 15671}, {verify, verify_peer}]}]}",
            "management.ssl.port = 15671\nmanagement.ssl.verify = verify_peer",
        ),
        ('{rabbitmq_management, [{load_definitions, "d.json"}]}', "load_definitions = d.json"),
        ("{rabbitmq_prometheus, [{tcp_config, [{port, 15692}]}]}", "prometheus.tcp.port = 15692"),
        ("{kernel, [{net_ticktime, 60}]}", "net_ticktime = 60"),
    ],
)
def test_other_applications_say_what_these_lines_say(section: str, lines: str) -> None:
    assert parse_config(f"[{section}].", "a.config") == parse_config(lines, "rabbitmq.conf")


def test_keys_without_effect_are_named_as_those_of_rabbitmq_conf_are() -> None:
    content = """[
     {rabbit, [{hipe_compile, true}, {cluster_nodes, {['a@b'], disc}}, {server_properties, []},
               {credit_flow_default_credit, {400, 200}}, {collect_statistics, fine}]},
     {kernel, [{inet_dist_listen_min, 10000}]},
     {rabbitmq_shovel, [{shovels, [{one, [{queue, <<"q">>}]}]}]},
     {rabbitmq_stomp, []}
    ]."""
    read = parse_config(content, "rabbitmq.config")
    assert read.values == {}
    assert read.pending == [
        "rabbit.hipe_compile", "rabbit.cluster_nodes", "rabbit.server_properties",
        "rabbit.credit_flow_default_credit", "collect_statistics", "kernel.inet_dist_listen_min",
        "rabbitmq_shovel.shovels",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[{rabbit, [{hartbeat, 3}]}].", "1:23: hartbeat: unknown key; did you mean heartbeat?"),
        ("[{rabbt, []}].", "1:2: rabbt: unknown application; did you mean rabbit?"),
        ("[{zzz, []}].", "1:2: zzz: unknown application; settings of the broker stand in {rabbit"),
        ("[{heartbeat, 60}].", "1:2: expected {application, [{Key, Value}, ...]}, as in [{rabbit"),
        ("[{rabbit, [5]}].", "1:12: rabbit: expected {key, Value}, as in [{rabbit, [{heartbeat"),
        (
            "[{rabbit, [{heartbeat, soon}]}].",
            "1:24: heartbeat: expected a whole number from 0 to 65535, got 'soon'",
        ),
        (
            "[{rabbit, [{heartbeat, [60]}]}].",
            "1:12: rabbit.heartbeat: expected one value, got a list [...]",
        ),
        (
            "[{rabbit, [{heartbeat, {60, 30}}]}].",
            "1:12: rabbit.heartbeat: expected one value, got a tuple {...}",
        ),
        (
            "[{rabbit, [{tcp_listeners, 5672}]}].",
            "1:12: rabbit.tcp_listeners: expected a list [...], got '5672'",
        ),
        (
            "[{rabbit, [{tcp_listeners, [amqp]}]}].",
            '1:12: rabbit.tcp_listeners: expected a port, or {"ADDRESS", PORT}',
        ),
        (
            '[{rabbit, [{default_permissions, [<<".*">>]}]}].',
            '1:12: rabbit.default_permissions: expected [<<"configure">>, <<"write">>, <<"read">>]',
        ),
        (
            "[{rabbit, [{ssl_options, [[1]]}]}].",
            "1:12: rabbit.ssl_options: expected {option, Value} in the list",
        ),
        (
            "[{rabbit, [{log_levels, [info]}]}].",
            "1:12: rabbit.log_levels: expected {category, level} in the list",
        ),
        (
            "[{rabbit, [{log, [info]}]}].",
            "1:12: rabbit.log: expected {output, [{option, Value}, ...]} in the list",
        ),
        (
            "[{rabbitmq_management, [{listener, [ssl]}]}].",
            "1:25: rabbitmq_management.listener: expected {option, Value} in the list",
        ),
        (
            "[{rabbitmq_management, [{tcp_config, [{ip, {1, 2}}]}]}].",
            '1:25: rabbitmq_management.tcp_config: expected an address such as "127.0.0.1"',
        ),
        (
            '[{rabbit, [{default_pass, {encrypted, <<"abc">>}}]}].',
            "1:12: rabbit.default_pass: encrypted values cannot be read: write the value itself",
        ),
        (
            "[{rabbit, [{'management.tcp.port', 1}]}].",
            "1:12: rabbit.management.tcp.port: unknown key; keys of rabbitmq.conf stand in",
        ),
        (
            "[{rabbit, [{ssl_options, [{key, {'RSAPrivateKey', <<\"secret\">>}}]}]}].",
            "1:27: ssl_options.key.1: name a PEM file with ssl_options.keyfile instead",
        ),
        (
            "[{rabbit, [{auth_backends, [{rabbit_auth_backend_amqp, [internal]}]}]}].",
            "1:29: auth_backends.1.authn: expected one of internal, ldap, http, cache, oauth2",
        ),
        (
            "[{rabbitmq_auth_backend_ldap, [{vhost_acces_query, true}]}].",
            "1:52: auth_ldap.vhost_acces_query: unknown key",
        ),
        (
            '[{rabbitmq_auth_backend_ldap, [{vhost_access_query, {in_gruop, "x"}}]}].',
            "1:53: auth_ldap.queries.vhost_access: 'in_gruop' is no query",
        ),
        (
            "[{rabbit, [{credential_validator, [{min_length, 8}]}]}].",
            "1:36: credential_validator.min_length: new passwords are not validated",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(content: str, problem: str) -> None:
    (found,) = problems_of(content)
    assert found.startswith(f"rabbitmq.config:{problem}")


def test_all_problems_are_told_at_once() -> None:
    assert (
        len(problems_of("[{rabbit, [{a, 1}, {heartbeat, x}, {tcp_listeners, y}]}, {b, []}].")) == 4
    )


def test_a_syntax_error_has_file_line_and_column() -> None:
    assert problems_of("[{rabbit, [\n  {heartbeat, 60},\n]}].") == [
        "rabbitmq.config:3:1: expected a term after ',', got ']': remove the comma before it"
    ]


def test_advanced_config_replaces_whole_keys_of_rabbitmq_conf(tmp_path: Path) -> None:
    """As in RabbitMQ: nothing is left of what stood under the same key of Erlang."""
    main, advanced = tmp_path / "rabbitmq.conf", tmp_path / "advanced.config"
    main.write_text(
        "heartbeat = 10\nframe_max = 8192\n"
        "listeners.tcp.1 = 5672\nlisteners.tcp.2 = 5673\n"
        "ssl_options.certfile = old.pem\nssl_options.depth = 3\n"
        "vm_memory_high_watermark.absolute = 1GB\n"
        "tcp_listen_options.nodelay = true\n"
    )
    advanced.write_text(
        '[{rabbit, [{heartbeat, 20}, {tcp_listeners, [{"::1", 1}]},'
        ' {ssl_options, [{certfile, "new.pem"}]}, {vm_memory_high_watermark, 0.3},'
        " {tcp_listen_options, [{backlog, 7}]}]}]."
    )
    read = read_config_files([main, advanced])
    config = read.config()
    assert (config.heartbeat_s, config.frame_max, config.tcp_backlog) == (20, 8192, 7)
    assert config.tcp_listeners == (Endpoint("::1", 1),)
    assert (config.ssl_options.certfile, config.ssl_options.depth) == ("new.pem", None)
    assert (config.memory_watermark, config.memory_watermark_bytes) == (0.3, None)
    assert read.pending == []


def test_problems_of_both_files_are_told(tmp_path: Path) -> None:
    main, advanced = tmp_path / "rabbitmq.conf", tmp_path / "advanced.config"
    main.write_text("hartbeat = 10\n")
    advanced.write_text("[{rabbit, [{a, 1}]}]")
    with pytest.raises(ConfigError) as caught:
        read_config_files([main, advanced])
    assert len(str(caught.value).splitlines()) == 2
