"""Reading rabbitmq.conf: what it means, and what a person is told when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.config.file import ConfigError, parse_config, read_config_file
from warren.config.pending import PENDING, REFUSED
from warren.config.settings import Config, settings
from warren.config.tls import ManagementTls, TlsOptions
from warren.config.values import Endpoint, byte_size
from warren.storage.disk.sizes import DEFAULT_SIZES, StorageSizes


def config_of(content: str) -> Config:
    return parse_config(content, "test.conf").config()


def problems_of(content: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(content, "test.conf")
    return str(caught.value).splitlines()


def test_without_a_file_the_defaults_are_rabbitmqs() -> None:
    config = Config()
    assert (config.channel_max, config.frame_max, config.heartbeat_s) == (2047, 131072, 60)
    assert config.tcp_listeners == (Endpoint("127.0.0.1", 5672),)
    assert config.loopback_users == ("guest",)
    assert config.handshake_timeout_ms == 10_000
    assert config.consumer_timeout_ms == 1_800_000
    assert config.max_message_size == 134_217_728


def test_keys_values_and_comments_are_read() -> None:
    config = config_of(
        """
        # a comment
        ## another = one
        heartbeat = 30
        channel_max=100   # after a value
          frame_max   =   8192

        default_user = root
        """
    )
    assert (config.heartbeat_s, config.channel_max, config.frame_max) == (30, 100, 8192)
    assert config.default_user == "root"


def test_the_last_of_several_values_counts() -> None:
    assert config_of("heartbeat = 5\nheartbeat = 7\n").heartbeat_s == 7


def test_listeners_have_names_and_ports_or_addresses() -> None:
    config = config_of(
        "listeners.tcp.default = 5672\n"
        "listeners.tcp.local = 127.0.0.1:5673\n"
        "listeners.tcp.six = [::1]:5674\n"
    )
    assert config.tcp_listeners == (
        Endpoint(None, 5672),
        Endpoint("127.0.0.1", 5673),
        Endpoint("::1", 5674),
    )


def test_listeners_can_be_none() -> None:
    assert config_of("listeners.tcp = none").tcp_listeners == ()


@pytest.mark.parametrize(
    ("content", "users"),
    [
        ("loopback_users = none", ()),
        ("loopback_users.guest = false", ()),
        ("loopback_users.guest = true\nloopback_users.root = true", ("guest", "root")),
    ],
)
def test_loopback_users_are_switched_by_name(content: str, users: tuple[str, ...]) -> None:
    assert config_of(content).loopback_users == users


def test_an_unknown_key_is_an_error_with_file_line_and_key() -> None:
    assert problems_of("heartbeat = 5\nhartbeat = 6\n") == [
        "test.conf:2: hartbeat: unknown key; did you mean heartbeat?"
    ]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("disk_free_limit = 50000000", "disk_free_limit.absolute"),
        ("disk_free_limit = 50MB", "disk_free_limit.absolute"),
        ("disk_free_limit = 1.5", "disk_free_limit.relative"),
        ("vm_memory_high_watermark = 0.4", "vm_memory_high_watermark.relative"),
        (
            "vm_memory_high_watermark = 1",
            "vm_memory_high_watermark.relative or vm_memory_high_watermark.absolute",
        ),
    ],
)
def test_c126_a_key_that_lacks_its_last_part_is_completed_by_its_value(
    line: str, hint: str
) -> None:
    key = line.partition(" ")[0]
    assert problems_of(line) == [f"test.conf:1: {key}: unknown key; did you mean {hint}?"]


def test_an_unknown_key_like_nothing_else_gets_no_suggestion() -> None:
    assert problems_of("zzzzqqqq = 6") == ["test.conf:1: zzzzqqqq: unknown key"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("heartbeat = soon", "expected a whole number from 0 to 65535, got 'soon'"),
        ("heartbeat = -1", "expected a whole number from 0 to 65535, got '-1'"),
        ("heartbeat =", "expected a whole number from 0 to 65535, got ''"),
        ("frame_max = 100", "expected a whole number from 4096 to 16777216, got '100'"),
        ("loopback_users.guest = maybe", "expected true or false, got 'maybe'"),
        ("loopback_users = guest", "expected none, or members such as loopback_users.1 = ..."),
        ("listeners.tcp.a = here", "expected PORT or ADDRESS:PORT, got 'here'"),
        ("listeners.tcp.a = :5672", "expected PORT or ADDRESS:PORT, got ':5672'"),
        ("listeners.tcp.a = 70000", "expected PORT or ADDRESS:PORT, got '70000'"),
        (
            "listeners.tcp.a = ::1:5672",
            "write an IPv6 address in brackets, as in [::1]:5672; got '::1:5672'",
        ),
        ("auth_mechanisms.1 = NTLM", "expected one of PLAIN, AMQPLAIN, EXTERNAL, got 'NTLM'"),
        ("listeners.ssl.1 = here", "expected PORT or ADDRESS:PORT, got 'here'"),
        ("ssl_options.verify = maybe", "expected one of verify_peer, verify_none, got 'maybe'"),
        (
            "ssl_options.versions.1 = sslv3",
            "expected one of tlsv1, tlsv1.1, tlsv1.2, tlsv1.3, got 'sslv3'",
        ),
        ("ssl_options.cert = MIIB", "name a PEM file with ssl_options.certfile instead"),
        ("ssl_options.psk_identity = me", "shared keys are not spoken here"),
        (
            "management.ssl.port = 70000",
            "expected a whole number from 0 to 65535, got '70000'",
        ),
        (
            "log.console.level = loud",
            "expected one of debug, info, warning, error, critical, none, got 'loud'",
        ),
        ("default_user =", "expected a text, got nothing"),
        (
            "vm_memory_high_watermark.relative = -1",
            "expected a number from 0.0 to 1000.0, got '-1'",
        ),
        (
            "disk_free_limit.absolute = 2 parsecs",
            "expected bytes as in 4096, 512MiB or 2GB, got '2 parsecs'",
        ),
        (
            "msg_store_file_size_limit = 1KiB",
            "expected a size from 65536 to 268435456 bytes, got '1KiB'",
        ),
        (
            "cluster_partition_handling = hope",
            "expected one of ignore, pause_minority, pause_if_all_down, autoheal, got 'hope'",
        ),
    ],
)
def test_a_bad_value_is_an_error_that_says_what_is_wanted(line: str, complaint: str) -> None:
    key = line.partition(" ")[0]
    assert problems_of(f"\n{line}\n") == [f"test.conf:2: {key}: {complaint}"]


def test_a_line_that_is_no_setting_is_an_error() -> None:
    assert problems_of("[{rabbit, []}].") == [
        "test.conf:1: expected key = value, got '[{rabbit, ...'"
    ]


def test_all_problems_are_told_at_once() -> None:
    assert len(problems_of("a = 1\nheartbeat = x\nnonsense\n")) == 3


@pytest.mark.parametrize("strategy", ["ignore", "pause_minority", "pause_if_all_down", "autoheal"])
def test_all_ways_to_handle_partitions_are_taken(strategy: str) -> None:
    """P6: what they mean here is said in docs/OPERATIONS.md."""
    text = f"cluster_partition_handling = {strategy}\n"
    if strategy == "pause_if_all_down":
        text += f"cluster_partition_handling.{strategy}.nodes.1 = rabbit@a\n"
        text += f"cluster_partition_handling.{strategy}.recover = autoheal\n"
    assert parse_config(text, "test.conf").config().partition_handling == strategy


@pytest.mark.parametrize(
    "line",
    [
        "vm_memory_calculation_strategy = rss",
        "queue_index_max_journal_entries = 4096",
        "cluster_partition_handling.pause_if_all_down.recover = autoheal",
        "cluster_partition_handling.pause_if_all_down.nodes.1 = rabbit@a",
        "ssl_options.log_alert = true",
        "tcp_listen_options.nodelay = true",
        "management.ssl.idle_timeout = 60000",
        "log.syslog.ip = 127.0.0.1",
        "log.console.formatter.time_format = rfc3339_space",
        "mqtt.listeners.tcp.default = 1883",
        "mqtt.allow_anonymous = true",
        "stomp.default_user = guest",
        "stream.listeners.tcp.1 = 5552",
        "web_mqtt.tcp.port = 15675",
    ],
)
def test_keys_of_parts_to_come_are_checked_and_named_as_without_effect(line: str) -> None:
    read = parse_config(line, "test.conf")
    assert read.pending == [line.partition(" ")[0]]
    assert read.values == {}


def test_options_of_tls_are_read_for_each_part_that_speaks_it() -> None:
    config = config_of(
        "listeners.ssl.default = 5671\n"
        "ssl_options.cacertfile = ca.pem\n"
        "ssl_options.password = pass # not a part of it\n"
        "ssl_options.versions.1 = tlsv1.2\n"
        "ssl_options.versions.2 = tlsv1.3\n"
        "management.ssl.port = 15671\n"
        "management.ssl.verify = verify_peer\n"
        "warren.cluster_links.ssl_options.depth = 1\n"
    )
    assert config.ssl_listeners == (Endpoint(None, 5671),)
    assert config.ssl_options == TlsOptions(
        cacertfile="ca.pem", password="pass", versions=("tlsv1.2", "tlsv1.3")
    )
    assert config.management_tls == ManagementTls(port=15671, verify="verify_peer")
    assert config.link_tls == TlsOptions(depth=1)


def test_a_line_without_a_sign_is_told_by_its_first_word_since_the_rest_may_be_secret() -> None:
    assert problems_of("default_pass hunter2") == [
        "test.conf:1: expected key = value, got 'default_pass ...'"
    ]


def test_no_key_is_both_acted_on_and_pending() -> None:
    assert set(settings()) & {*PENDING, *REFUSED} == set()
    assert set(PENDING) & set(REFUSED) == set()


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("auth_backends.1 = amqp", "expected one of internal, ldap, http, cache, oauth2"),
        ("auth_backends.2.authz = dummy", "expected one of internal, ldap, http, cache, oauth2"),
        ("auth_backends.1 = rabbit_auth_backend_uaa", "expected one of internal, ldap, http"),
        ("auth_http.unheard_of = 1", "unknown key"),
        ("auth_oauth2.resource_server_type = rabbit", "unknown key"),
        ("auth_oauth2.jwks_url = http://keys.example.org/", "expected an https URL"),
        ('auth_ldap.queries.vhost_access = {in_gruop, "cn=x"}', "'in_gruop' is no query"),
        ("password_hashing_module = rabbit_password_hashing_sha512", "new passwords are hashed"),
        (
            "credential_validator.validation_backend = rabbit_credential_validator_password_regexp",
            "new passwords are not validated",
        ),
        ("credential_validator.min_length = 12", "new passwords are not validated"),
    ],
)
def test_what_would_change_who_is_let_in_is_refused(line: str, remedy: str) -> None:
    """A node that ignored it would be open to those whom the operator has locked out."""
    (problem,) = problems_of(line)
    assert problem.startswith(f"test.conf:1: {line.partition(' ')[0]}: {remedy}")


@pytest.mark.parametrize(
    "line",
    [
        "password_hashing_module = rabbit_password_hashing_sha256",
        "credential_validator.validation_backend = rabbit_credential_validator_accept_everything",
    ],
)
def test_a_key_that_asks_for_what_happens_anyway_is_accepted(line: str) -> None:
    assert parse_config(line, "test.conf").pending == [line.partition(" ")[0]]


def test_every_setting_has_a_meaning_to_print_and_a_default_it_would_accept() -> None:
    for setting in settings().values():
        assert setting.meaning
        default = setting.value_in(Config())
        if setting.combine is None and default is not None:
            assert default == "" or setting.read(str(default)) == default


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1k", 1024), ("1KiB", 1024), ("2GB", 2_000_000_000), ("3MiB", 3 * 1024**2)],
)
def test_byte_sizes_have_rabbitmqs_units(text: str, size: int) -> None:
    assert byte_size(text) == size


def test_sizes_of_files_are_those_the_storage_gets() -> None:
    sizes = parse_config(
        "queue_index_embed_msgs_below = 0\n"
        "msg_store_file_size_limit = 1MiB\n"
        "warren.journal_file_size_limit = 64k\n",
        "test.conf",
    ).config()
    assert sizes.storage_sizes == StorageSizes(0, 1024**2, 65_536)
    assert Config().storage_sizes == DEFAULT_SIZES


def test_limits_of_memory_and_disk_are_read_with_their_units() -> None:
    config = parse_config(
        "vm_memory_high_watermark.relative = 0.6\n"
        "vm_memory_high_watermark.absolute = 2GiB\n"
        "vm_memory_high_watermark_paging_ratio = 0.75\n"
        "total_memory_available_override_value = 8GB\n"
        "disk_free_limit.relative = 1.5\n"
        "disk_free_limit.absolute = 50MB\n",
        "test.conf",
    ).config()
    assert (config.memory_watermark, config.memory_watermark_bytes) == (0.6, 2 * 1024**3)
    assert (config.memory_paging_ratio, config.memory_total_override) == (0.75, 8_000_000_000)
    assert (config.disk_free_limit, config.disk_free_limit_bytes) == (1.5, 50_000_000)


def test_secrets_do_not_show_when_a_config_is_printed() -> None:
    shown = repr(Config(cluster_secret="hush-1", default_pass="hush-2"))
    assert "hush" not in shown


def test_a_log_category_may_be_quieter_than_the_rest_but_not_louder() -> None:
    config = config_of("log.console.level = warning\nlog.connection.level = error\n")
    assert config.log.category_levels == {
        "connection": "error", "channel": "warning", "queue": "warning",
    }  # fmt: skip


def test_a_log_file_has_its_own_level_form_and_rotation() -> None:
    config = config_of(
        "log.console = false\nlog.file = rabbit.log\nlog.dir = /var/log/rabbitmq\n"
        "log.file.level = error\nlog.file.formatter = json\nlog.file.rotation.date = $D0\n"
        "log.file.rotation.size = 10MB\nlog.file.rotation.count = 3\n"
    )
    assert config.log.path(config.data_dir) == Path("/var/log/rabbitmq/rabbit.log")
    assert (config.log.level, config.log.file_format) == ("error", "json")
    assert (config.log.rotation_date, config.log.rotation_count) == ("$D0", 3)
    assert config.log.rotation_bytes == 10_000_000


@pytest.mark.parametrize(
    ("line", "name"), [("log.file = true", "warren.log"), ("log.file = false", None)]
)
def test_a_log_file_may_be_switched_on_and_off(line: str, name: str | None) -> None:
    path = config_of(line).log.path(Path("data"))
    assert path == (None if name is None else Path("data/log") / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.conf: cannot be read: No such file"):
        read_config_file(tmp_path / "none.conf")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture.conf"
    path.write_bytes(b"\xff\xd8\xff")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read_config_file(path)
