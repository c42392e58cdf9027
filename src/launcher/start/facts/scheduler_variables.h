// Gives the schedulers' functions access to the environment, so that each function only says which variable means what.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/start/facts/cluster_env.h"

namespace ddp::launcher {

struct Number {
  std::int64_t value = 0;
  std::string source;  // name of the variable
};

struct HostNames {
  std::vector<std::string> names;  // empty if not given
  std::string source;              // name of the variable
  std::string text;                // the names as a message shows them
};

// Every function reads the first variable of its list that is set and not empty. An invalid value is recorded as the
// failure, and the function proceeds as if the variable were not set. Only the first failure is kept.
//
//   SchedulerVariables variables(request);
//   const auto rank = variables.number({"PMI_RANK"}, 0, 65535);
//   if (variables.failure()) return base::Failure{*variables.failure()};  // "PMI_RANK="x" is not a number from …"
class SchedulerVariables {
 public:
  // `request` must outlive this.
  explicit SchedulerVariables(const ClusterRequest& request) : request_(request) {}

  std::optional<std::string> find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name).has_value(); }

  std::optional<Number> number(std::initializer_list<const char*> names, std::int64_t least, std::int64_t most);
  std::optional<Number> node_count(std::initializer_list<const char*> names);
  std::optional<Number> node_rank(std::initializer_list<const char*> names);
  std::optional<Number> gpus(std::initializer_list<const char*> names);  // std::nullopt also for 0
  bool exceeds(const char* name, std::int64_t most);                     // whether the variable is above `most`

  // Returns printable text without spaces, with `prefix` removed if present. Returns an empty string if no variable is
  // set.
  std::string word(std::initializer_list<const char*> names, std::string_view prefix = "");

  HostNames host_list(std::initializer_list<const char*> names);  // host list with brackets
  HostNames host_pairs(const char* name);                         // "h1 4 h2 4": hosts, each with its number of slots
  HostNames host_json(const char* name);                          // JSON list such as ["a","b"]; the result is sorted
  HostNames host_file(const char* name);                          // hosts of the file that the variable names

  // Returns the index of `name` in `hosts`, found by its full name or else by the part before the first dot. Returns
  // std::nullopt unless exactly one host matches.
  static std::optional<int> find_host(const HostNames& hosts, const std::string& name);

  const std::string& own_name() const { return request_.host_name; }

  void refuse(const std::string& why) {
    if (!failure_) failure_ = why;
  }
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  // `complaint` is the text that precedes the parser's message.
  HostNames names_in(const std::string& host_file, const char* name, const std::string& complaint);
  std::optional<std::string> first_of(std::initializer_list<const char*> names, std::string& source) const;

  const ClusterRequest& request_;
  std::optional<std::string> failure_;
};

// Returns "NAME="value"", for messages.
std::string assignment(const std::string& name, const std::string& value);

}  // namespace ddp::launcher
