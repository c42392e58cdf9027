// The zoo: programs that are healthy and look as if they hung, and programs that hang. zoo_test.py says what is
// expected of ddplaunch for each, and shortens its limits; the times here fit to that.
#pragma once

#include <ddp/ddp.h>

#include <sys/types.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace zoo {

// Longer than the longest report needs, and shorter than the shortened limit for a rank without a sign of life.
inline constexpr int kIdleSeconds = 8;
// Much longer than that limit.
inline constexpr int kBusySeconds = 26;

// What a rank does at some step of a training loop. The loop's collectives go on afterwards, with all ranks.
using Deed = std::function<void(ddp::ProcessGroup& world)>;

std::map<std::string, Deed> idle();
std::map<std::string, Deed> alive();
std::map<std::string, Deed> together();
std::map<std::string, Deed> threads();
std::map<std::string, Deed> hanging();
std::map<std::string, Deed> mismatched();
// Those that this user may be.
std::map<std::string, Deed> starved();
// Without a process group: programs that do not use the runtime.
std::map<std::string, std::function<void(int rank)>> plain();
// None where this user cannot make a network.
std::map<std::string, Deed> network();

// Only rank 1 does it: the others wait for it in the next collective.
Deed of_rank_one(std::function<void()> deed);

// Seconds of CLOCK_MONOTONIC.
double now();
void sleep_for(double seconds);
[[noreturn]] void sleep_for_ever();
// Until it has used a processor for so long, however much of one it gets.
void use_processor(double seconds);
// With a quarter of a processor: others are to run beside it.
void compute_for(double seconds);
// Ends the process with 99 and a word on standard error: the program was disturbed.
void require(bool condition, const std::string& what);

// A command of the shell that succeeds.
void run(const std::string& command);
pid_t in_child(const std::function<void()>& deed);
// Until it has ended with 0.
void wait_for(pid_t child);
// Each rank sends to the next one and receives from the one before it.
void exchange_in_a_batch(ddp::ProcessGroup& world);
// Over the loopback interface.
std::array<int, 2> connected_sockets();

}  // namespace zoo
