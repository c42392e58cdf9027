#include "base/signals.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddp::base {
namespace {

// The C library provides the names only since glibc 2.32 (sigabbrev_np).
constexpr std::pair<int, const char*> kNames[] = {
    {SIGHUP, "SIGHUP"},       {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},   {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"},     {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},     {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"},     {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"},   {SIGUSR2, "SIGUSR2"},
    {SIGPIPE, "SIGPIPE"},     {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},   {SIGCHLD, "SIGCHLD"},
    {SIGSTKFLT, "SIGSTKFLT"}, {SIGCONT, "SIGCONT"}, {SIGSTOP, "SIGSTOP"},   {SIGTSTP, "SIGTSTP"},
    {SIGTTIN, "SIGTTIN"},     {SIGTTOU, "SIGTTOU"}, {SIGURG, "SIGURG"},     {SIGXCPU, "SIGXCPU"},
    {SIGXFSZ, "SIGXFSZ"},     {SIGPROF, "SIGPROF"}, {SIGWINCH, "SIGWINCH"}, {SIGPOLL, "SIGPOLL"},
    {SIGVTALRM, "SIGVTALRM"}, {SIGPWR, "SIGPWR"},   {SIGSYS, "SIGSYS"},
};

}  // namespace

std::string signal_name(int signal) {
  const auto* const named = std::ranges::find(kNames, signal, [](const auto& row) { return row.first; });
  if (named != std::end(kNames)) return named->second;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  return "signal " + std::to_string(signal);
}

bool contains(std::span<const int> signals, int signal) {
  return std::ranges::find(signals, signal) != signals.end();
}

}  // namespace ddp::base
