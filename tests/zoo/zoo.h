// The zoo has programs that are healthy and look as if they hung, and programs that hang. zoo_test.py checks what
// ddplaunch does with each, and shortens its limits. The times here match these limits.
#pragma once

#include <ddp/ddp.h>

#include <sys/types.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace zoo {

// This is longer than the longest report needs, and shorter than the shortened limit for a rank without a sign of life.
inline constexpr int kIdleSeconds = 8;
// This is much longer than the shortened limit.
inline constexpr int kBusySeconds = 26;

// Describes what a rank does at some step of a training loop. Afterwards the loop's collectives continue, with all
// ranks.
using Action = std::function<void(ddp::ProcessGroup& world)>;

std::map<std::string, Action> alone();
std::map<std::string, Action> together();
std::map<std::string, Action> ends();
std::map<std::string, Action> hanging();
// Returns the programs that this user may run.
std::map<std::string, Action> starved();
// Returns an empty map if this user cannot make a network.
std::map<std::string, Action> network();

// Only rank 1 calls `action`. The others wait for it in the next collective.
Action of_rank_one(std::function<void()> action);

// Returns the seconds of CLOCK_MONOTONIC.
double now();
void sleep_for(double seconds);
[[noreturn]] void sleep_for_ever();
// Returns when the process has used a processor for this long, whatever share of it the process gets.
void use_processor(double seconds);
// Uses a tenth of a processor, so that others can run beside it.
void compute_for(double seconds);
// Ends the process with 99 and a message on standard error if the program was disturbed.
void require(bool condition, const std::string& what);

// Runs a shell command, which must succeed.
void run(const std::string& command);
pid_t in_child(const std::function<void()>& action);
// Waits until the child has ended with 0.
void wait_for(pid_t child);
// Each rank sends to the next one and receives from the previous one.
void exchange_in_a_batch(ddp::ProcessGroup& world);
// Returns two sockets that are connected over the loopback interface.
std::array<int, 2> connected_sockets();

}  // namespace zoo
