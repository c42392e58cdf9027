#include "runtime/init/init_method.h"

#include <ddp/error.h>

#include <climits>

#include "base/text.h"

namespace ddp::internal {
namespace {

constexpr const char* kForms = "Write env://, tcp://HOST:PORT?rank=R&world_size=N or file:///PATH?rank=R&world_size=N.";

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::invalid_argument, "init_method '" + text + "': " + why + ". " + kForms);
}

std::string percent_decoded(const std::string& part, const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      result += part[i];
      continue;
    }
    const auto byte = i + 2 < part.size() ? base::parse_hex(part.substr(i + 1, 2)) : std::nullopt;
    if (byte.value_or(0) == 0) refuse(text, "'%' is not followed by two hexadecimal digits of a byte");
    result += static_cast<char>(*byte);
    i += 2;
  }
  return result;
}

void read_query(const std::string& query, const std::string& text, InitMethod& method) {
  for (const std::string& item : base::split(query, '&')) {
    if (item.empty()) continue;
    const auto equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (name != "rank" && name != "world_size") refuse(text, "'" + name + "' is not known");
    auto& member = name == "rank" ? method.rank : method.world_size;
    if (member) refuse(text, name + " is given twice");
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    const auto number = base::parse_integer(value, name == "rank" ? 0 : 1, INT_MAX);
    if (!number) refuse(text, name + "=" + value + " is not a number from " + (name == "rank" ? "0" : "1"));
    member = static_cast<int>(*number);
  }
}

void read_address(const std::string& address, const std::string& text, InitMethod& method) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || address.ends_with(']')) refuse(text, "there is no port");
  std::string host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find_first_of(":[]/") != std::string::npos) {
    refuse(text, "'" + host + "' is not a host (an IPv6 address is written in brackets)");
  }
  if (host.empty()) refuse(text, "there is no host");
  const auto port = base::parse_integer(address.substr(colon + 1), 1, 65535);
  if (!port) refuse(text, "'" + address.substr(colon + 1) + "' is not a port from 1 to 65535");
  method.host = percent_decoded(host, text);
  method.port = static_cast<std::uint16_t>(*port);
}

std::optional<int> agreed(const char* name, std::optional<int> in_method, std::optional<int> in_options) {
  if (in_method && in_options && *in_method != *in_options) {
    throw Error(ErrorKind::invalid_argument, std::string(name) + " is " + std::to_string(*in_method) +
                                                 " in init_method but " + std::to_string(*in_options) +
                                                 " in InitOptions. Give it once.");
  }
  return in_method ? in_method : in_options;
}

}  // namespace

InitMethod parse_init_method(const std::string& text) {
  const auto question = text.find('?');
  const std::string place = text.substr(0, question);
  InitMethod method;
  if (question != std::string::npos) read_query(text.substr(question + 1), text, method);
  if (place == "env://") return method;
  if (place.starts_with("tcp://")) {
    method.kind = InitMethod::Kind::tcp;
    read_address(place.substr(6), text, method);
    return method;
  }
  if (place.starts_with("file://")) {
    method.kind = InitMethod::Kind::file;
    method.path = percent_decoded(place.substr(7), text);
    if (!method.path.starts_with('/')) refuse(text, "the path does not begin with a slash (file:// and /PATH)");
    if (method.path.ends_with('/')) refuse(text, "the path names a directory");
    return method;
  }
  refuse(text, "has an unknown scheme");
}

StartEnvironment with_ranks(const InitMethod& method, std::optional<int> rank, std::optional<int> world_size,
                            StartEnvironment environment) {
  rank = agreed("rank", method.rank, rank);
  world_size = agreed("world_size", method.world_size, world_size);
  const bool explicit_world = method.kind != InitMethod::Kind::environment || rank || world_size;
  if (explicit_world && !environment.has_ranks && !(rank && world_size)) {
    throw Error(ErrorKind::invalid_argument,
                std::string(rank ? "world_size" : "rank") +
                    " is not given: neither in init_method (?rank=R&world_size=N) nor in InitOptions, and the "
                    "environment has no RANK and WORLD_SIZE.");
  }
  if (!explicit_world && !environment.has_ranks && environment.lacks_rank) {
    throw Error(ErrorKind::invalid_argument,
                "WORLD_SIZE is set but RANK is not. Start the program with ddplaunch, or set both; to run it alone, "
                "unset WORLD_SIZE.");
  }
  environment.rank = rank.value_or(environment.rank);
  environment.world_size = world_size.value_or(environment.world_size);
  if (environment.rank < 0 || environment.rank >= environment.world_size) {
    throw Error(ErrorKind::invalid_argument, "rank " + std::to_string(environment.rank) + " does not fit a world of " +
                                                 base::counted(environment.world_size, "rank") +
                                                 ": ranks count from 0.");
  }
  return environment;
}

}  // namespace ddp::internal
