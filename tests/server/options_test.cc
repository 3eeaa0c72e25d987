#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rallypoint::server {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

ParsedOptions parse(const std::vector<std::string>& args, const std::vector<std::string>& environment = {}) {
  return parse_options(args, environment);
}

/// The options of a command line that must be good.
Options good(const std::vector<std::string>& args, const std::vector<std::string>& environment = {}) {
  ParsedOptions parsed = parse(args, environment);
  EXPECT_TRUE(parsed.options.has_value()) << parsed.error;
  return parsed.options.value_or(Options{});
}

TEST(Options, WithoutAnyStartOneNode) {
  const ParsedOptions parsed = parse({});
  ASSERT_TRUE(parsed.options);
  EXPECT_THAT(parsed.warnings, IsEmpty());
  const Options& options = *parsed.options;
  EXPECT_EQ(options.name, "default");
  EXPECT_EQ(options.data_dir, "./default.rallypoint");
  EXPECT_THAT(options.listen_client_urls, ElementsAre(Url{"http", "127.0.0.1", 2379}));
  EXPECT_THAT(options.listen_peer_urls, ElementsAre(Url{"http", "localhost", 2380}));
  EXPECT_EQ(options.initial_cluster.size(), 1u);
  EXPECT_TRUE(options.is_single_node());
  EXPECT_FALSE(options.exit_with_parent);
}

// The command line of torch's EtcdServer, which can't be changed: no name, no cluster, ports of its own.
TEST(Options, TakeTheCommandLineOfTorch) {
  const ParsedOptions parsed =
      parse({"--enable-v2", "--data-dir", "/tmp/torchelastic_etcd_data_x/0", "--listen-client-urls",
             "http://localhost:41417", "--advertise-client-urls", "http://localhost:41417", "--listen-peer-urls",
             "http://localhost:39443"});
  ASSERT_TRUE(parsed.options) << parsed.error;
  EXPECT_THAT(parsed.warnings, IsEmpty());
  EXPECT_EQ(parsed.options->data_dir, "/tmp/torchelastic_etcd_data_x/0");
  EXPECT_THAT(parsed.options->listen_client_urls, ElementsAre(Url{"http", "localhost", 41417}));
  EXPECT_TRUE(parsed.options->is_single_node());
}

TEST(Options, TakeOneDashOrTwoAndEitherWayToGiveAValue) {
  EXPECT_EQ(good({"-name", "a"}).name, "a");
  EXPECT_EQ(good({"-name=a"}).name, "a");
  EXPECT_EQ(good({"--name", "a"}).name, "a");
  EXPECT_EQ(good({"--name=a"}).name, "a");
  EXPECT_EQ(good({"--name=a", "--name=b"}).name, "b") << "the last one wins, as with Go's flags";
  good({"--enable-v2=true"});
  good({"--enable-v2=false"});
  good({"-enable-v2"});
}

TEST(Options, NameTheDataDirectoryAfterTheMember) {
  EXPECT_EQ(good({"--name=n1"}).data_dir, "./n1.rallypoint");
}

TEST(Options, AdvertiseWhatIsListenedOn) {
  const Options options = good({"--listen-client-urls=http://10.1.2.3:1,http://[::1]:2"});
  EXPECT_EQ(options.advertise_client_urls, options.listen_client_urls);
  EXPECT_EQ(options.advertise_client_urls[1].to_string(), "http://[::1]:2");
}

TEST(Options, WarnWhenAWildcardWouldBeAdvertised) {
  EXPECT_THAT(parse({"--listen-client-urls=http://0.0.0.0:2379"}).warnings,
              Contains(HasSubstr("--advertise-client-urls")));
}

TEST(Options, DescribeAClusterOfThree) {
  const Options options =
      good({"--name=n2", "--initial-cluster", "n1=http://127.0.0.1:1,n2=http://127.0.0.1:2,n3=http://127.0.0.1:3"});
  EXPECT_THAT(options.initial_cluster, ElementsAre(InitialMember{"n1", {{"http", "127.0.0.1", 1}}},
                                                   InitialMember{"n2", {{"http", "127.0.0.1", 2}}},
                                                   InitialMember{"n3", {{"http", "127.0.0.1", 3}}}));
  EXPECT_THAT(options.initial_advertise_peer_urls, ElementsAre(Url{"http", "127.0.0.1", 2}));
  EXPECT_FALSE(options.is_single_node());
}

TEST(Options, GatherTheUrlsOfAMemberThatStandsTwice) {
  const Options options = good({"--name=a", "--initial-cluster=a=http://x:1,b=http://y:1,a=http://x:2"});
  ASSERT_EQ(options.initial_cluster.size(), 2u);
  EXPECT_EQ(options.initial_cluster[0].peer_urls.size(), 2u);
}

TEST(Options, ComeFromTheEnvironmentToo) {
  const Options options = good({}, {"ETCD_NAME=env", "ETCD_DATA_DIR=/d", "PATH=/bin", "ETCD_LOG_LEVEL="});
  EXPECT_EQ(options.name, "env");
  EXPECT_EQ(options.data_dir, "/d");
}

TEST(Options, OfTheCommandLineWinOverTheEnvironment) {
  EXPECT_EQ(good({"--name=cli"}, {"ETCD_NAME=env", "RALLYPOINT_NAME=own"}).name, "cli");
  EXPECT_EQ(good({}, {"ETCD_NAME=env", "RALLYPOINT_NAME=own"}).name, "own");
}

TEST(Options, WarnOfUnknownVariablesAndGoOn) {
  const ParsedOptions parsed = parse({}, {"ETCD_NO_SUCH=1", "ETCD_PORT_2379_TCP_ADDR=1.2.3.4"});
  EXPECT_TRUE(parsed.options);
  EXPECT_THAT(parsed.warnings, Contains(HasSubstr("ETCD_NO_SUCH")));
}

TEST(Options, CanEndWithTheParentByAVariableOnly) {
  EXPECT_TRUE(good({}, {"RALLYPOINT_EXIT_WITH_PARENT=1"}).exit_with_parent);
  EXPECT_FALSE(good({}, {"RALLYPOINT_EXIT_WITH_PARENT=0"}).exit_with_parent);
}

TEST(Options, RefuseAnUnknownNameAndSuggestNearOnes) {
  const ParsedOptions parsed = parse({"--data-dri=/x"});
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.error, AllOf(HasSubstr("unknown option --data-dri"), HasSubstr("--data-dir")));
  EXPECT_THAT(parse({"--unheard-of"}).error, HasSubstr("unknown option --unheard-of"));
  EXPECT_THAT(parse({"stray"}).error, HasSubstr("\"stray\" is not an option"));
}

TEST(Options, AcceptWhatEtcdHasAndWeDoNotWithAWarning) {
  const ParsedOptions parsed = parse({"--corrupt-check-time=1h", "--pre-vote", "--logger", "zap"});
  EXPECT_TRUE(parsed.options) << parsed.error;
  EXPECT_THAT(parsed.warnings, Contains(HasSubstr("--corrupt-check-time")));
}

TEST(Options, BoundTheV3ApiAndItsConnections) {
  const Options options = good({"--max-txn-ops=500", "--max-concurrent-streams=7", "--grpc-keepalive-interval=1m30s", "--grpc-keepalive-timeout=5s",
                                "--experimental-watch-progress-notify-interval=3s", "--listen-metrics-urls=http://127.0.0.1:9100"});
  EXPECT_EQ(options.max_txn_ops, 500u);
  EXPECT_EQ(options.max_concurrent_streams, 7u);
  EXPECT_EQ(options.grpc_keepalive_interval_ms, 90'000u);
  EXPECT_EQ(options.grpc_keepalive_timeout_ms, 5'000u);
  EXPECT_EQ(options.watch_progress_notify_ms, 3'000u);
  ASSERT_EQ(options.listen_metrics_urls.size(), 1u);
  EXPECT_EQ(options.listen_metrics_urls.front().port, 9100);
  EXPECT_EQ(good({"--grpc-keepalive-interval=0s"}).grpc_keepalive_interval_ms, 0u);
}

TEST(Options, SayWhatIsForgotten) {
  using Mode = AutoCompaction::Mode;
  EXPECT_EQ(good({}).auto_compaction.mode, Mode::kOff);
  EXPECT_EQ(good({"--auto-compaction-retention=0"}).auto_compaction.mode, Mode::kOff);
  const AutoCompaction hours = good({"--auto-compaction-retention=2"}).auto_compaction;
  EXPECT_EQ(hours.mode, Mode::kTime) << "a plain number counts hours, as etcd's";
  EXPECT_EQ(hours.time.us, 7'200'000'000);
  EXPECT_EQ(good({"--auto-compaction-mode=periodic", "--auto-compaction-retention=10m"}).auto_compaction.time.us, 600'000'000);
  const AutoCompaction revisions = good({"--auto-compaction-mode=revision", "--auto-compaction-retention=1000"}).auto_compaction;
  EXPECT_EQ(revisions.mode, Mode::kRevisions);
  EXPECT_EQ(revisions.revisions, 1000);
}

TEST(Options, DoNotPretendToBeSecure) {
  for (const char* option : {"--cert-file=/x", "--client-cert-auth", "--peer-auto-tls=true", "--listen-client-urls=https://a:1"}) {
    const ParsedOptions parsed = parse({option});
    EXPECT_FALSE(parsed.options) << option;
    EXPECT_THAT(parsed.error, HasSubstr("TLS")) << option;
  }
  EXPECT_TRUE(parse({"--client-cert-auth=false"}).options) << "asks for nothing";
}

struct BadCase {
  std::vector<std::string> args;
  std::string complaint;
};
class BadOptions : public testing::TestWithParam<BadCase> {};

TEST_P(BadOptions, AreExplainedWithNameValueAndRemedy) {
  const ParsedOptions parsed = parse(GetParam().args);
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.error, AllOf(StartsWith("rallypoint: "), HasSubstr(GetParam().complaint)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptions,
    testing::Values(
        BadCase{{"--heartbeat-interval=fast"}, "--heartbeat-interval: \"fast\" is not a whole number from 1 to 60000"},
        BadCase{{"--heartbeat-interval=0"}, "from 1 to 60000"}, BadCase{{"--heartbeat-interval=-5"}, "from 1 to 60000"},
        BadCase{{"--election-timeout=99999999999999999999"}, "from 5 to 50000"},
        BadCase{{"--election-timeout=300"}, "less than 5 times --heartbeat-interval"},
        BadCase{{"--max-request-bytes=1.5MiB"}, "--max-request-bytes: \"1.5MiB\""},
        BadCase{{"--snapshot-count=0"}, "--snapshot-count"}, BadCase{{"--log-level=loud"}, "debug, info, warn, error"},
        BadCase{{"--log-outputs=,"}, "--log-outputs"}, BadCase{{"--name="}, "--name"}, BadCase{{"--name"}, "--name"},
        BadCase{{"--listen-client-urls=127.0.0.1:2379"}, "has no scheme; write e.g. http://"},
        BadCase{{"--listen-client-urls=http://127.0.0.1"}, "has no port"},
        BadCase{{"--listen-client-urls=http://127.0.0.1:99999"}, "has no port from 0 to 65535"},
        BadCase{{"--listen-client-urls=http://127.0.0.1:1/path"}, "more than a host and a port"},
        BadCase{{"--listen-client-urls=http://::1:2379"}, "IPv6 address without brackets"},
        BadCase{{"--listen-client-urls=http://:2379"}, "has no host"},
        BadCase{{"--listen-client-urls=ftp://h:1"}, "scheme other than http"},
        BadCase{{"--listen-peer-urls="}, "--listen-peer-urls: 1 required URLS missing"}, BadCase{{"--listen-peer-urls=,"}, "no URL given"},
        BadCase{{"--initial-cluster=n1"}, "is not name=URL"}, BadCase{{"--initial-cluster=n1=nowhere"}, "member n1"},
        BadCase{{"--initial-cluster=a=http://h:1,b=http://h:1", "--name=a"}, "http://h:1 stands there twice"},
        BadCase{{"--initial-cluster=a=http://h:1,b=http://h:2"}, "no member is named \"default\""},
        BadCase{{"--initial-cluster=a=http://h:1,b=http://h:2", "--name=a", "--initial-advertise-peer-urls=http://h:9"},
                "make them equal"},
        BadCase{{"--auto-compaction-mode=daily"}, "is not one of periodic, revision"},
        BadCase{{"--auto-compaction-retention=soon"}, "is not a time of at least 1000ms"},
        BadCase{{"--auto-compaction-mode=revision", "--auto-compaction-retention=1h"}, "is not a whole number from 1"},
        BadCase{{"--max-txn-ops=0"}, "from 1 to 100000"},
        BadCase{{"--initial-cluster-state=old"}, "is not one of new, existing"},
        BadCase{{"--force-new-cluster"}, "--force-new-cluster"}));

TEST(Options, PrintTheVersionAsEtcdDoes) {
  const ParsedOptions parsed = parse({"--version"});
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_THAT(parsed.out, StartsWith("etcd Version: 3."));
  EXPECT_THAT(parsed.out, HasSubstr("rallypoint Version: "));
}

TEST(Options, HelpThatTeaches) {
  const ParsedOptions parsed = parse({"--help"});
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_THAT(parsed.out, AllOf(HasSubstr("--initial-cluster"), HasSubstr("Three nodes on this machine"), HasSubstr("torchrun")));
  EXPECT_THAT(parsed.out, testing::Not(HasSubstr("--cert-file"))) << "what has no effect is not advertised";
  EXPECT_EQ(parse({"-h"}).out, parsed.out);
}

TEST(Url, IsParsedAndPrinted) {
  for (const char* text : {"http://a:1", "http://127.0.0.1:2379", "http://[::1]:65535", "http://localhost:0"})
    EXPECT_EQ(Url::parse(text).value().to_string(), text);
  EXPECT_EQ(Url::parse("http://a:1/").value().to_string(), "http://a:1") << "never with a trailing slash";
  for (const char* text : {"", "http://", "http://[::1:5", "http://[x]:5", "http://a:1?x", "http://u@a:1", "http://a:", "http://a b:1"})
    EXPECT_FALSE(Url::parse(text).is_ok()) << text;
}

}  // namespace
}  // namespace rallypoint::server
