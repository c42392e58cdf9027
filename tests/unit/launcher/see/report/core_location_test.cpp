#include "launcher/see/report/core_location.h"

#include <unistd.h>

#include <csignal>

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;

namespace {

const auto kDumped = ExitStatus::killed(SIGSEGV, true);
const auto kNotDumped = ExitStatus::killed(SIGSEGV, false);

CoreFacts facts_with(const std::string& pattern) {
  CoreFacts facts;
  facts.pattern = pattern;
  facts.pid = 4711;
  facts.program = "/opt/job/train_a_large_model";
  facts.executable = "/data/releases/7/train_a_large_model";
  facts.directory = "/home/me";
  facts.host_name = "node0";
  facts.signal = SIGSEGV;
  facts.user = 1000;
  facts.group = 100;
  return facts;
}

std::string place(const std::string& pattern) {
  return describe_core(kDumped, facts_with(pattern));
}

}  // namespace

TEST_CASE("each specifier of a core pattern is expanded as the kernel does") {
  CHECK(place("/c/%p") == "/c/4711");
  CHECK(place("/c/%P") == "/c/4711");
  CHECK(place("/c/%e") == "/c/train_a_large_m");  // a thread's name has 15 bytes
  CHECK(place("/c/%f") == "/c/train_a_large_model");
  CHECK(place("/c/%E") == "/c/!data!releases!7!train_a_large_model");
  CHECK(place("/c/%s.%h.%u.%g") == "/c/11.node0.1000.100");
  CHECK(place("/c/%%.%p") == "/c/%.4711");
  CHECK(place("/c/%t-%d-%c-%C-%i-%I") == "/c/*-*-*-*-*-*");
}

TEST_CASE("unknown specifiers of a core pattern and a final percent sign are dropped") {
  CHECK(place("/c/a%xb") == "/c/ab");
  CHECK(place("/c/a%") == "/c/a");
}

TEST_CASE("a relative core pattern is below the working directory") {
  CHECK(place("core") == "/home/me/core");
  CHECK(place("cores/%p") == "/home/me/cores/4711");
}

TEST_CASE("the pid is appended if the kernel is configured so and the pattern lacks it") {
  CoreFacts facts = facts_with("/c/core");
  facts.uses_pid = true;
  CHECK(describe_core(kDumped, facts) == "/c/core.4711");
  facts.pattern = "/c/%p.core";
  CHECK(describe_core(kDumped, facts) == "/c/4711.core");
  facts.pattern = "/c/%%p";
  CHECK(describe_core(kDumped, facts) == "/c/%p.4711");
  facts.pattern = "/c/%P";
  CHECK(describe_core(kDumped, facts) == "/c/4711.4711");
  facts.pattern = "";
  CHECK(describe_core(kDumped, facts) == "/home/me/.4711");
}

TEST_CASE("pids of a container are not mistaken for those that the kernel writes") {
  CoreFacts facts = facts_with("/c/%p.%P.%u.%g");
  facts.has_own_numbers = true;
  CHECK(describe_core(kDumped, facts) == "/c/4711.*.*.*");
  facts.pattern = "|/usr/lib/systemd/systemd-coredump %P";
  CHECK(describe_core(kDumped, facts) == "with systemd-coredump");
}

TEST_CASE("a core handler is named with the command for systemd's cores") {
  CHECK(place("|/usr/lib/systemd/systemd-coredump %P %u %g %s %t %c %h") ==
        "with systemd-coredump (coredumpctl info 4711)");
  CHECK(place("|/usr/share/apport/apport -p%p -s%s -c%c -d%d -P%P") == "with apport");
  CHECK(place("|/bin/collect") == "with collect");
  CHECK(place("@/run/cores.socket") == "with the server at /run/cores.socket");
  CHECK(place("@@/run/cores.socket") == "with the server at /run/cores.socket");
  CHECK(place("@") == "with the server at ");
  CoreFacts facts = facts_with("|/usr/lib/systemd/systemd-coredump %P");
  facts.limit_is_zero = true;
  CHECK(describe_core(kDumped, facts) ==
        "with systemd-coredump (coredumpctl info 4711), which may discard it, because the core limit is 0");
  CHECK(describe_core(kNotDumped, facts) == "none");  // the limit is not named as the reason
}

TEST_CASE("a core limit of 0 is reported with the remedy") {
  CoreFacts facts = facts_with("core");
  CHECK(describe_core(kNotDumped, facts) == "none");
  facts.limit_is_zero = true;
  CHECK(describe_core(kNotDumped, facts) == "none, because the limit is 0 (--core=unlimited)");
  facts.choice = CoreDumps::off;
  CHECK(describe_core(kNotDumped, facts) == "none (--core=off)");
  facts.choice = CoreDumps::unlimited;
  CHECK(describe_core(kNotDumped, facts) == "none, because the hard limit is 0 (ulimit -H -c)");
  CHECK(describe_core(kDumped, facts) == "/home/me/core");  // the worker may have its own limit
}

TEST_CASE("cores are not mentioned if none is expected or nothing is known") {
  CHECK(describe_core(ExitStatus::exited(139), facts_with("core")).empty());
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGPIPE}) {
    CHECK(describe_core(ExitStatus::killed(signal), facts_with("core")).empty());
  }
  CHECK(describe_core(kDumped, facts_with("")).empty());
  for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ}) {
    CHECK_FALSE(describe_core(ExitStatus::killed(signal, true), facts_with("core")).empty());
  }
}

TEST_CASE("the facts about cores come from this node and from --core") {
  const CoreFacts facts = gather_core_facts(7, "/proc/self/exe", "node0", CoreDumps::off, kDumped);
  CHECK(facts.limit_is_zero);
  CHECK(facts.choice == CoreDumps::off);
  CHECK(facts.signal == SIGSEGV);
  CHECK(facts.pid == 7);
  CHECK(facts.user == ::getuid());
  CHECK(facts.directory.starts_with("/"));
  CHECK(facts.program == "/proc/self/exe");
  CHECK(facts.executable.find("unit_launcher_test") != std::string::npos);
  CHECK(gather_core_facts(7, "/no/such", "node0", CoreDumps::inherit, ExitStatus::exited(1)).executable == "/no/such");
}
