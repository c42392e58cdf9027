#include "launcher/start/cli/values.h"

#include <csignal>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

TEST_CASE("the option --nnodes is a number or a range") {
  CHECK(parse_nodes("1").value() == std::pair(1, 1));
  CHECK(parse_nodes("2:8").value() == std::pair(2, 8));
  for (const char* wrong : {"", "0", "-1", "x", "2:1", "0:1", "1:", ":1", "1:2:3", "1 ", "1.0", "99999999999"}) {
    CAPTURE(wrong);
    CHECK(parse_nodes(wrong).error().message.starts_with(" is not a number of nodes. Use N or MIN:MAX"));
  }
}

TEST_CASE("streams are given as one digit for all ranks or as one digit per rank") {
  CHECK(parse_streams("3").value().of(7) == 3);
  CHECK_FALSE(parse_streams("0").value().any());
  const StreamSelection map = parse_streams("0:1,12:3").value();
  CHECK(map.of(0) == 1);
  CHECK(map.of(12) == 3);
  CHECK(map.of(1) == 0);
  for (const char* wrong : {"", "4", "-1", "x", "0:", ":1", "0:4", "0:1,", "0:1,1", "0:1 1:1", "9999:1"}) {
    CAPTURE(wrong);
    CHECK(parse_streams(wrong).error().message.find("as in 0:1,12:3") != std::string::npos);
  }
  CHECK(parse_streams("3:1,3:2").error().message.starts_with(" names local rank 3 twice"));
}

TEST_CASE("local ranks are parsed as a list without duplicates") {
  CHECK(parse_local_ranks("12,0,0").value() == std::vector{0, 12});
  CHECK(parse_local_ranks("").value().empty());
  for (const char* wrong : {",", "0,", "x", "-1", "0 1", "0-3"}) {
    CAPTURE(wrong);
    CHECK(parse_local_ranks(wrong).error().message.find("as in 0,1") != std::string::npos);
  }
}

TEST_CASE("filters are separated by commas, and a double comma is a literal comma") {
  using Texts = std::vector<std::string>;
  CHECK(parse_filters("").value().empty());
  CHECK(parse_filters("loss").value() == Texts{"loss"});
  CHECK(parse_filters("a,b c").value() == Texts{"a", "b c"});
  CHECK(parse_filters("a,,b").value() == Texts{"a,b"});
  CHECK(parse_filters(",,").value() == Texts{","});
  CHECK(parse_filters("a,,,b").value() == Texts{"a,", "b"});
  for (const char* wrong : {",", "a,", ",a"}) {
    CAPTURE(wrong);
    CHECK(parse_filters(wrong).error().message.find("empty text") != std::string::npos);
  }
}

TEST_CASE("signal names are accepted with or without SIG") {
  CHECK(parse_signals("SIGTERM,int,Usr1,SIGTERM").value() == std::vector{SIGTERM, SIGINT, SIGUSR1});
  CHECK(parse_signals("").error().message.starts_with(": an empty name is not a signal"));
  CHECK(parse_signals("SIGTERM,").error().message.starts_with(": an empty name is not a signal"));
  CHECK(parse_signals("SIGFOO").error().message.starts_with(": SIGFOO is not a signal. Use names"));
  CHECK(parse_signals("15").error().message.starts_with(": 15 is not a signal."));
  CHECK(parse_signals("SIGKILL").error().message == ": SIGKILL cannot be caught. Leave it out.");
  CHECK(parse_signals("TERM,STOP").error().message == ": SIGSTOP cannot be caught. Leave it out.");
  CHECK(parse_signals("CHLD").error().message.find("whenever a worker exits") != std::string::npos);
  CHECK(parse_signals("SEGV").error().message.find("fault of ddplaunch") != std::string::npos);
}

TEST_CASE("rendezvous settings have known keys and valid values") {
  CHECK(parse_rendezvous_settings("").value().empty());
  const auto settings = parse_rendezvous_settings("timeout=900,is_host=true,store_type=tcp,rank=1").value();
  CHECK(settings.at("timeout") == "900");
  CHECK(settings.at("is_host") == "true");
  CHECK(parse_rendezvous_settings("timeuot=3").error().message == ": unknown key timeuot. Did you mean timeout?");
  CHECK(parse_rendezvous_settings("zzzzzzzz=3").error().message.find("Known keys: timeout, ") != std::string::npos);
  CHECK(parse_rendezvous_settings("timeout=x").error().message == ": timeout is not a time such as 30, 90s or 10m.");
  CHECK(parse_rendezvous_settings("timeout=15m").value().at("timeout") == "15m");
  CHECK(parse_rendezvous_settings("rank=-1").error().message == ": rank is not a number from 0.");
  CHECK(parse_rendezvous_settings("is_host=maybe").error().message == ": is_host is not true or false.");
  CHECK(parse_rendezvous_settings("store_type=file").error().message.find("tcp, the only supported store") !=
        std::string::npos);
  for (const char* wrong : {"timeout", "=3", "timeout=3,", ","}) {
    CAPTURE(wrong);
    CHECK(parse_rendezvous_settings(wrong).error().message.find("Use KEY=VALUE") != std::string::npos);
  }
  for (const char* quoted : {"'timeout=900,rank=1'", " timeout='900', \"rank\"=\"1\""}) {
    CAPTURE(quoted);
    const auto unquoted = parse_rendezvous_settings(quoted);
    REQUIRE(unquoted);
    CHECK(unquoted.value() == std::map<std::string, std::string>{{"timeout", "900"}, {"rank", "1"}});
  }
  CHECK(parse_rendezvous_settings("protocol=https,timeout=9", UnknownKeys::kept).value().at("protocol") == "https");
  CHECK(parse_rendezvous_settings("timeout=x", UnknownKeys::kept).error().message ==
        ": timeout is not a time such as 30, 90s or 10m.");
  CHECK(is_for_several_nodes("join_timeout"));
  CHECK_FALSE(is_for_several_nodes("is_host"));
  CHECK_FALSE(is_for_several_nodes("nonsense"));
}

TEST_CASE("an endpoint is a host with an optional port") {
  for (const char* right :
       {"", "node0", "node0:29400", "localhost:0", "10.0.0.1:65535", "[::1]:29400", "[fe80::1]", "::1", "fe80::1"}) {
    CAPTURE(right);
    CHECK(parse_endpoint(right).value() == right);
  }
  for (const char* wrong : {":29400", "node0:", "node0:x", "node0:65536", "node0:-1", "[::1", "[::1]x", "[]:1", "a b",
                            "tcp://node0", "[::1]:"}) {
    CAPTURE(wrong);
    CHECK(parse_endpoint(wrong).error().message.find("as in node0:29400 or [::1]:29400") != std::string::npos);
  }
}

TEST_CASE("an endpoint is divided into host and port") {
  CHECK(parse_host_and_port("[::1]:7").value().host == "::1");
  CHECK(parse_host_and_port("[::1]:7").value().port == 7);
  CHECK_FALSE(parse_host_and_port("fe80::1").value().port.has_value());
  CHECK_FALSE(parse_host_and_port("").ok());
}

TEST_CASE("the format of a tag has known fields only") {
  for (const char* right : {"", "[${rank}] ", "${node}/${local_rank} ${role} ${time}", "$rank {x} $"}) {
    CAPTURE(right);
    CHECK(parse_tag(right).value() == right);
  }
  CHECK(parse_tag("${rnak}").error().message ==
        " has an unknown field ${rnak}. Known fields: ${rank}, ${local_rank}, ${node}, ${role}, ${time}.");
  CHECK(parse_tag("[${rank").error().message.starts_with(" has a ${ without a closing }"));
  CHECK(parse_tag("${}").error().message.starts_with(" has an unknown field ${}"));
}

TEST_CASE("seconds may have fractions and are never rounded to zero") {
  CHECK(parse_seconds("0").value() == 0ms);
  CHECK(parse_seconds("0.25").value() == 250ms);
  CHECK(parse_seconds("0.0001").value() == 1ms);
  CHECK(parse_seconds("1e3").value() == 1000s);
  CHECK(parse_seconds("0.1ms").value() == 1ms);
  CHECK(parse_seconds("500ms").value() == 500ms);
  CHECK(parse_seconds("10m").value() == 600s);
  CHECK(parse_seconds("1h30m").value() == 90min);
  for (const char* wrong : {"", "soon", "-1", "nan", "inf", "1e9", "300h", "5x", " 5"}) {
    CAPTURE(wrong);
    CHECK(parse_seconds(wrong).error().message ==
          " is not a time from 0 to 1000000 seconds. Use a number of seconds such as 30 or 0.5, or units as in 500ms, "
          "90s, 10m or 1h30m.");
  }
}

TEST_CASE("the option --nproc-per-node is a number or the name of a device type") {
  CHECK(parse_workers("3").value() == 3);
  CHECK(parse_workers("auto").value() == WorkerCount::By::gpus_or_cpus);
  CHECK(parse_workers("gpu").value() == WorkerCount::By::gpus);
  CHECK(parse_workers("cpu").value() == WorkerCount::By::cpus);
  for (const char* wrong : {"", "0", "4097", "gpus", "-1"}) {
    CHECK(parse_workers(wrong).error().message == " is not a number from 1 to 4096, auto, gpu or cpu.");
  }
}

TEST_CASE("lists of hosts, forwarded names and the program must not be empty") {
  CHECK(parse_host_words("a,b:4").value().size() == 2);
  CHECK(parse_host_words("").error().message == " names no host. Write hosts as in a,b:4.");
  CHECK(parse_host_words("a,,b").error().message.starts_with(": "));
  CHECK(parse_forwarded("A,B*,C=3*").value() == std::vector<std::string>{"A", "B*", "C=3*"});
  CHECK(parse_forwarded("A,,B").error().message.starts_with(" has an empty name."));
  CHECK(parse_forwarded("*A").error().message == ": a * is allowed only at the end of a name.");
  CHECK(parse_program("ssh -v").value() == "ssh -v");
  CHECK(parse_program("  ").error().message.starts_with(" is empty. Name a program"));
}

TEST_CASE("run names, rendezvous backends and node timeouts are validated") {
  CHECK(parse_preload("torch,lightning.pytorch").value() == "torch,lightning.pytorch");
  CHECK(parse_preload("auto").value() == kPreloadAuto);
  CHECK(parse_preload("off").value().empty());
  for (const char* wrong : {"", "torch,", "a b", "os;x"}) {
    CHECK(parse_preload(wrong).error().message.find("--preload=torch,lightning") != std::string::npos);
  }
  CHECK(parse_run_id("run 7").value() == "run 7");
  CHECK(parse_run_id("").error().message.starts_with(" is empty. Name the run"));
  CHECK(parse_run_id("a/b").error().message == " has a slash. Use a name without one.");
  CHECK(parse_rendezvous_backend("static").value() == RdzvBackend::static_);
  CHECK(parse_rendezvous_backend("etcd-v2").error().message.ends_with("Use c10d."));
  CHECK(parse_rendezvous_backend("x").error().message.ends_with("Use static or c10d."));
  CHECK(parse_node_timeout("3").value() == 3s);
  CHECK(parse_node_timeout("2.9").error().message.starts_with(" is too short, because"));
  CHECK(parse_node_timeout("1m").value() == 60s);
  CHECK(parse_node_timeout("500ms").error().message.starts_with(" is too short, because"));
  CHECK(parse_node_timeout("x").error().message.starts_with(" is not a time from 0"));
}

TEST_CASE("parse_percent() converts 0 to 100 percent to a fraction and rejects other text") {
  CHECK(parse_percent("1%").value() == 0.01);
  CHECK(parse_percent("0.5").value() == 0.005);
  CHECK(parse_percent("0").value() == 0);
  CHECK(parse_percent("100%").value() == 1);
  for (const char* wrong : {"", "%", "-1", "101", "1%%", "one", "nan", "inf", "1 %", "0x1"}) {
    CAPTURE(wrong);
    CHECK(parse_percent(wrong).error().message ==
          " is not a percentage from 0 to 100. Use a number such as 1%, 0.5% or 1.");
  }
}
