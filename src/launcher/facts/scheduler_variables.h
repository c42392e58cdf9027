// SchedulerVariables: the environment as the schedulers' functions read it, so that each of them says only which
// variable means what.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/facts/cluster_env.h"

namespace ddp::launcher {

struct Number {
  std::int64_t value = 0;
  std::string source;  // the variable
};

struct HostNames {
  std::vector<std::string> names;  // empty: not said
  std::string source;              // the variable
  std::string text;                // the names as a message shows them
};

// Every function looks at the first variable of its list that is set and not empty. A value that is none is remembered
// as the failure, and the function goes on as if the variable were not set; the first failure counts.
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
  std::optional<Number> gpus(std::initializer_list<const char*> names);  // nothing for 0, too
  bool exceeds(const char* name, std::int64_t most);                     // whether there is such a number above `most`

  // Printable text without blanks, and without `prefix` where it has one; empty if none of them is set.
  std::string word(std::initializer_list<const char*> names, std::string_view prefix = "");

  HostNames host_list(std::initializer_list<const char*> names);  // with brackets
  HostNames host_pairs(const char* name);                         // "h1 4 h2 4": those with a number of slots each
  HostNames host_json(const char* name);                          // ["a","b"], sorted
  HostNames host_file(const char* name);                          // the file that the variable names

  // Where `name` is in `hosts`, by its full name or else by the part before the first dot; nothing unless it is in one
  // place only.
  static std::optional<int> find_host(const HostNames& hosts, const std::string& name);

  const std::string& own_name() const { return request_.host_name; }

  void refuse(const std::string& why) {
    if (!failure_) failure_ = why;
  }
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  // `complaint` comes before what is wrong with the text.
  HostNames names_in(const std::string& host_file, const char* name, const std::string& complaint);
  std::optional<std::string> first_of(std::initializer_list<const char*> names, std::string& source) const;

  const ClusterRequest& request_;
  std::optional<std::string> failure_;
};

// "NAME="value"", for messages.
std::string assignment(const std::string& name, const std::string& value);

}  // namespace ddp::launcher
