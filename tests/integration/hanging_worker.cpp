// hanging_worker KIND [STEP [TIMEOUT]]: all-reduces again and again; from STEP on, rank 1 behaves according to KIND.
// integration/hang_test.py and stacks_test.py start it. A rank that shall continue later waits until the test opens a
// FIFO in the folder HANG_FOLDER.
#include <ddp/ddp.h>

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks are POSIX
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// Loops because a signal handler, such as the one for stacks, ends a pause().
void wait_for_ever() {
  while (true) ::pause();
}

// Waits idle until the test has opened the FIFO for writing.
void wait_for_test(const std::string& fifo) {
  const char* folder = std::getenv("HANG_FOLDER");
  if (folder != nullptr) ::close(::open((folder + ("/" + fifo)).c_str(), O_RDONLY | O_CLOEXEC));
}

[[gnu::noinline]] void misbehave(const std::string& kind) {
  if (kind == "deaf") {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  }
  if (kind == "pause" || kind == "deaf") wait_for_ever();
  // Any signal, for example the one for stacks, ends these pauses.
  if (kind == "wakes") ::pause();
  if (kind == "fails_when_woken") {
    ::pause();
    std::_Exit(5);
  }
  if (kind == "stop") {
    ::raise(SIGSTOP);
    wait_for_test("go");
  }
  if (kind == "phase") {
    const ddp::PhaseScope phase(ddp::Phase::evaluation, "validation set");
    wait_for_ever();
  }
  if (kind == "slow") wait_for_test("go");
}

// With "exchange", two ranks each wait for what the other one sends later. With "chain", ranks wait in a chain for rank
// 1, which sleeps.
void transfer(const std::string& kind, ddp::ProcessGroup& world) {
  std::vector<float> values(8);
  const int rank = world.rank();
  if (kind == "exchange" && rank < 2) {
    world.recv(values, 1 - rank).wait();
    world.send(values, 1 - rank).wait();
  }
  if (kind == "chain" && rank == 1) wait_for_ever();
  if (kind == "chain" && rank == 0) world.recv(values, 2).wait();
  if (kind == "chain" && rank == 2) {
    world.recv(values, 1).wait();
    world.send(values, 0).wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const int step_of_fault = argc > 2 ? std::atoi(argv[2]) : 20;
  ddp::InitOptions options;
  if (argc > 3) options.timeout = std::chrono::seconds(std::atoi(argv[3]));
  ddp::ProcessGroup world = ddp::init(options);
  std::vector<float> values(1024);
  for (int step = 0; step < 40; ++step) {
    if (step == step_of_fault && world.rank() == 1) misbehave(kind);
    if (step == step_of_fault && kind == "everybody") wait_for_ever();
    // Waits long enough for the launcher to see that the job continues.
    if (step == step_of_fault + 10 && kind == "slow") wait_for_test("end" + std::to_string(world.rank()));
    if (step == step_of_fault) transfer(kind, world);
    world.all_reduce(values, ddp::ReduceOp::sum, {.name = "bucket 0"}).wait();
  }
  if (world.rank() == 0) std::puts("done");
  world.finalize();
}
