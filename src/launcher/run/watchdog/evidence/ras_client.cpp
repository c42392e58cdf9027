#include "launcher/run/watchdog/evidence/ras_client.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/run/stacks/function_name.h"
#include "launcher/start/facts/node_facts.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using net::SocketFailure;
using Kind = SocketFailure::Kind;

// Removes the first line from `text`. Returns it without the spaces at its end.
std::string_view take_line(std::string_view& text) {
  std::string_view line = base::take_line(text);
  line.remove_suffix(line.size() - (line.find_last_not_of(" \t\r") + 1));
  return line;
}

bool is_underline(std::string_view line) {
  return !line.empty() && line.find_first_not_of('=') == std::string_view::npos;
}

std::string place_of(const std::string& host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return frame_text(is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string why_not_connected(const std::string& place, const SocketFailure& failure) {
  if (failure.kind == Kind::timed_out) return place + " did not answer in time";
  if (failure.message != std::strerror(ECONNREFUSED)) return "cannot connect to " + place + ": " + failure.message;
  return "no process listens on " + place +
         " (connection refused): NCCL is older than 2.24, has created no communicator yet, or NCCL_RAS_ENABLE is 0";
}

class Conversation {
 public:
  Conversation(std::string place, base::UniqueFd fd, net::Deadline deadline)
      : place_(std::move(place)), fd_(std::move(fd)), deadline_(deadline) {}

  // Sets the deadline of the commands that follow.
  void set_deadline(net::Deadline deadline) { deadline_ = deadline; }
  // Returns whether the last command failed because its deadline passed.
  bool has_timed_out() const { return has_timed_out_; }

  // Sends a command. Returns the line that answers it.
  base::Result<std::string> ask(const std::string& command);

  // Sends the last command and stores up to `most` bytes of its answer in `text`. Returns why the answer is incomplete,
  // or an empty text if it is complete.
  std::string ask_all(const std::string& command, std::size_t most, std::string& text);

  base::Failure is_no_ras(std::string_view said) const {
    return {place_ + " does not use NCCL's RAS protocol ('" + frame_text(said, 40) + "')"};
  }

 private:
  base::Result<net::Done, SocketFailure> say(const std::string& command) {
    const std::string line = command + "\n";
    return net::send_all(fd_.get(), line, deadline_);
  }

  base::Result<net::Done, SocketFailure> hear() {
    std::array<char, 16 << 10> buffer;
    const auto got = net::receive_some(fd_.get(), buffer, deadline_);
    if (!got) return got.error();
    heard_.append(buffer.data(), got.value());
    return net::Done{};
  }

  // Explains why there is no answer.
  base::Failure no_answer(const SocketFailure& failure, const std::string& command) {
    has_timed_out_ = failure.kind == Kind::timed_out;
    if (failure.kind == Kind::timed_out) return {place_ + " did not answer in time"};
    return {place_ + " did not answer " + command + ": " + failure.message};
  }

  std::string place_;
  base::UniqueFd fd_;
  net::Deadline deadline_;
  std::string heard_;
  bool has_timed_out_ = false;
};

base::Result<std::string> Conversation::ask(const std::string& command) {
  if (const auto said = say(command); !said) return no_answer(said.error(), command);
  std::size_t end = heard_.find('\n');
  while (end == std::string::npos && heard_.size() < kRasLineBytes) {
    const auto more = hear();
    if (!more && more.error().kind == Kind::closed && !heard_.empty()) return is_no_ras(heard_);
    if (!more) return no_answer(more.error(), command);
    end = heard_.find('\n');
  }
  if (end == std::string::npos) return is_no_ras(heard_);
  std::string_view rest = heard_;
  std::string line(take_line(rest));
  heard_.erase(0, end + 1);
  return line;
}

std::string Conversation::ask_all(const std::string& command, std::size_t most, std::string& text) {
  if (const auto said = say(command); !said) return no_answer(said.error(), command).message;
  auto more = hear();
  while (more && heard_.size() <= most) more = hear();
  text = std::move(heard_);
  if (text.size() > most) {
    text.resize(most);
    return place_ + " sent more than " + base::human_bytes(most) + "; the rest is omitted";
  }
  const SocketFailure& end = more.error();
  if (text.empty()) return no_answer(end, command).message;
  if (end.kind == Kind::timed_out) return place_ + " did not complete its answer in time; the rest is missing";
  // A service that dies while it collects data ends its answer with "Communicators...", without a line break.
  if (end.kind == Kind::closed && text.ends_with('\n')) return "";
  return place_ + " closed the connection in the middle of its answer: " + end.message;
}

// Limits the time that the service may take: it has to give up on dead ranks before this client gives up on it.
std::string timeout_command(net::Deadline deadline) {
  const auto left = std::chrono::floor<std::chrono::seconds>(deadline - std::chrono::steady_clock::now()).count();
  return "TIMEOUT " + std::to_string(std::max<std::int64_t>(left - 1, 1));
}

base::Result<net::Done> greet(Conversation& conversation) {
  constexpr std::string_view kGreeting = "SERVER PROTOCOL ";
  const auto greeting = conversation.ask("CLIENT PROTOCOL 2");
  if (!greeting) return greeting.error();
  // NCCL's own client continues whatever the version is.
  if (::strncasecmp(greeting.value().c_str(), kGreeting.data(), kGreeting.size()) != 0) {
    return conversation.is_no_ras(greeting.value());
  }
  return net::Done{};
}

struct Connection {
  std::unique_ptr<Conversation> conversation;  // null if there is none
  std::string failure;
};

// Connects until a rank greets. All ranks of a node listen at the same address, and the kernel chooses one of them for
// each connection. If it chooses one whose RAS thread is stopped, the connection is accepted but nothing answers. So
// each connection except the last one gets a part of the time.
Connection connect(const std::string& host, std::uint16_t port, const std::string& place, net::Deadline deadline) {
  const auto part = (deadline - std::chrono::steady_clock::now()) / (kRasConnections + 1);
  Connection made;
  for (int i = 1; i <= kRasConnections; ++i) {
    const net::Deadline until = i == kRasConnections ? deadline : std::chrono::steady_clock::now() + part;
    auto fd = net::connect_tcp(host, port, until);
    if (!fd) return {nullptr, why_not_connected(place, fd.error())};
    made.conversation = std::make_unique<Conversation>(place, std::move(fd).value(), until);
    const auto greeted = greet(*made.conversation);
    if (greeted) return made;
    made.failure = greeted.error().message;
    if (!made.conversation->has_timed_out()) break;
  }
  made.conversation.reset();
  return made;
}

base::Result<net::Done> limit_time(Conversation& conversation, net::Deadline deadline) {
  conversation.set_deadline(deadline);
  const auto consent = conversation.ask(timeout_command(deadline));
  if (!consent) return consent.error();
  if (::strcasecmp(consent.value().c_str(), "OK") != 0) return conversation.is_no_ras(consent.value());
  return net::Done{};
}

}  // namespace

EvidenceSource ask_ras(const std::string& host, std::uint16_t port, net::Deadline deadline) {
  EvidenceSource source{"NCCL RAS", {}, {}, {}};
  const std::string place = place_of(host, port);
  const Connection connection = connect(host, port, place, deadline);
  if (connection.conversation == nullptr) {
    source.missing.push_back(connection.failure);
    return source;
  }
  Conversation& conversation = *connection.conversation;
  const auto agreed = limit_time(conversation, deadline);
  const std::string why =
      agreed ? conversation.ask_all("VERBOSE STATUS", kRasTextBytes, source.text) : agreed.error().message;
  if (!why.empty()) source.missing.push_back(why);
  source.essence = ras_essence(source.text, kRasEssenceLines);
  return source;
}

std::string ask_ras_status(const RasAddress& address, net::Deadline deadline) {
  const Connection connection = connect(address.host, address.port, place_of(address.host, address.port), deadline);
  if (connection.conversation == nullptr || !limit_time(*connection.conversation, deadline)) return "";
  // An NCCL older than 2.28.7 answers that it does not know this, and then speaks text.
  if (!connection.conversation->ask("SET FORMAT json")) return "";
  std::string text;
  return connection.conversation->ask_all("VERBOSE STATUS", kRasStatusBytes, text).empty() ? text : "";
}

std::optional<RasAddress> ras_address_in(std::span<const std::string> environment) {
  const auto address = find_variable(environment, wire::env::kNcclRasAddress);
  if (!address || find_variable(environment, wire::env::kNcclRasEnable) == "0") return std::nullopt;
  const std::size_t colon = std::min(address->rfind(':'), address->size());
  const std::string_view port = std::string_view(*address).substr(std::min(colon + 1, address->size()));
  RasAddress found{address->substr(0, colon),
                   static_cast<std::uint16_t>(base::parse_integer(port, 1, 65535).value_or(0))};
  if (found.host.starts_with('[') && found.host.ends_with(']'))
    found.host = found.host.substr(1, found.host.size() - 2);
  return found;
}

std::vector<std::string> ras_essence(std::string_view text, std::size_t most_lines) {
  std::vector<std::string> essence;
  std::int64_t left_out = 0;
  bool is_wanted = false;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    std::string_view behind = text;
    if (is_underline(take_line(behind))) {
      is_wanted = line == "Errors" || line == "Warnings";
      text = behind;
    } else if (is_wanted && !line.empty()) {
      if (essence.size() < most_lines) {
        essence.push_back(frame_text(line, kRasEssenceBytes));
      } else {
        ++left_out;
      }
    }
  }
  if (left_out > 0) essence.push_back("… and " + base::counted(left_out, "more line"));
  return essence;
}

}  // namespace ddp::launcher
