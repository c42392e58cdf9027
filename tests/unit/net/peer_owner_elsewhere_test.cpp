// Tests peers and lookups in special environments: no socket diagnostics, another network, other users.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "net/address.h"
#include "net/peer_owner.h"
#include "support/catch.h"
#include "support/local_connections.h"

using namespace ddp::test;
using ddp::base::UniqueFd;
using ddp::net::PeerLookup;

namespace {

constexpr int kSkipped = 77;

// Returns what `action` returns in a child process, or a negative number if a signal killed the child.
int in_a_child(const std::function<int()>& action) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(action());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool forbid_netlink() {
  std::array<sock_filter, 6> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Runs `work` in a child process. The two take turns by sending single bytes.
class Helper {
 public:
  explicit Helper(const std::function<bool(const std::function<bool()>& answer_and_wait)>& work) {
    std::array<int, 2> questions{};
    std::array<int, 2> answers{};
    if (::pipe2(questions.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(questions[1]);
      const auto answer_and_wait = [&] {
        char byte = 0;
        return ::write(answers[1], &byte, 1) == 1 && ::read(questions[0], &byte, 1) == 1;
      };
      ::_exit(work(answer_and_wait) ? 0 : 1);
    }
    ::close(questions[0]);
    ::close(answers[1]);
    to_.reset(questions[1]);
    from_.reset(answers[0]);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper() {
    to_.reset();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  bool answers() const {
    char byte = 0;
    return ::read(from_.get(), &byte, 1) == 1;
  }
  bool goes_on() const {
    const char byte = 0;
    return ::write(to_.get(), &byte, 1) == 1;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd to_;
  UniqueFd from_;
};

bool run(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;  // NOLINT(cert-env33-c): a test
}

UniqueFd connect_to_address(in_addr_t address, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(address);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) return {};
  return fd;
}

}  // namespace

TEST_CASE("the owner of a peer is read from /proc if netlink is forbidden") {
  const int result = in_a_child([] {
    if (!forbid_netlink()) return kSkipped;
    PeerLookup lookup;
    if (lookup.source() != PeerLookup::Source::tables) return 1;
    const Listener listener;
    const UniqueFd client = connect_to(listener.port, Family::v4);
    const UniqueFd server = listener.accept();
    if (lookup.owner_of_peer(server.get()) != owner_of(client)) return 2;
    // The list of interfaces is not available either.
    return ddp::net::is_own_address(ddp::net::peer_endpoint(server.get())->address) ? 0 : 3;
  });
  if (result == kSkipped) {
    WARN("skipped: no seccomp here");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("a peer in another network namespace has neither owner nor address here") {
  constexpr in_addr_t kHere = 0xC0000201;  // 192.0.2.1
  const int result = in_a_child([] {
    if (::unshare(CLONE_NEWNET) != 0 || !run("ip link set lo up")) return kSkipped;
    if (!run("ip link add here type veth peer name there && ip addr add 192.0.2.1/24 dev here")) return kSkipped;
    const Listener listener;
    const Helper helper([&](const std::function<bool()>& answer_and_wait) {
      if (::unshare(CLONE_NEWNET) != 0 || !answer_and_wait()) return false;
      if (!run("ip addr add 192.0.2.2/24 dev there && ip link set there up")) return false;
      const UniqueFd fd = connect_to_address(kHere, listener.port);
      return fd && answer_and_wait();
    });
    if (!helper.answers() || !run("ip link set there netns " + std::to_string(helper.pid()))) return kSkipped;
    if (!run("ip link set here up") || !helper.goes_on() || !helper.answers()) return 1;
    const UniqueFd server = listener.accept();
    const auto peer = ddp::net::peer_endpoint(server.get());
    if (!peer || peer->address.text() != "192.0.2.2") return 2;
    if (PeerLookup().owner_of_peer(server.get())) return 3;
    if (PeerLookup(PeerLookup::Source::tables).owner_of_peer(server.get())) return 4;
    if (ddp::net::is_own_address(peer->address)) return 5;

    // This process connects to itself over its own address.
    const UniqueFd client = connect_to_address(kHere, listener.port);
    const UniqueFd ours = listener.accept();
    if (!client || !ddp::net::is_own_address(ddp::net::peer_endpoint(ours.get())->address)) return 6;
    if (PeerLookup().owner_of_peer(ours.get()) != owner_of(client)) return 7;
    // If the kernel allows binding to any address, the list of interfaces decides.
    std::ofstream("/proc/sys/net/ipv4/ip_nonlocal_bind") << "1\n";
    if (!ddp::net::is_own_address(ddp::net::own_endpoint(ours.get())->address)) return 8;
    return ddp::net::is_own_address(peer->address) ? 9 : 0;
  });
  if (result == kSkipped) {
    WARN("skipped: making networks takes root and ip");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("a user outside of the user namespace gets the overflow uid") {
  const Listener listener;
  const Helper outside([&](const std::function<bool()>& answer_and_wait) {
    if (::setresuid(1234, 1234, 1234) != 0) return false;
    const UniqueFd fd = connect_to(listener.port, Family::v4);
    return fd && answer_and_wait();
  });
  if (!outside.answers()) {
    WARN("skipped: becoming another user takes root");
    return;
  }
  const UniqueFd server = listener.accept();
  const int result = in_a_child([&] {
    const std::string uid = std::to_string(::getuid());
    if (::unshare(CLONE_NEWUSER) != 0) return kSkipped;
    std::ofstream("/proc/self/uid_map") << "0 " + uid + " 1\n";
    for (const auto source : {PeerLookup::Source::diagnostics, PeerLookup::Source::tables}) {
      PeerLookup lookup(source);
      if (lookup.source() != source) return 1;
      const auto owner = lookup.owner_of_peer(server.get());
      if (!owner || owner->uid != ddp::net::uid_of_unknown_users()) return 2;
    }
    return 0;
  });
  if (result == kSkipped) {
    WARN("skipped: no user namespaces here");
    return;
  }
  CHECK(result == 0);
}
