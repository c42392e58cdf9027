#include "bench/bench_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "base/duration.h"

namespace ddp::bench {
namespace {

constexpr const char* kGroup = "Benchmark";
constexpr std::size_t kMostBytes = std::size_t{1} << 40;

std::size_t bytes_of(const std::string& option, const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const std::map<std::string, int> shifts = {{"", 0},   {"B", 0},    {"K", 10}, {"KiB", 10},
                                             {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
  const auto shift = shifts.find(unit);
  if (error != std::errc() || shift == shifts.end() || number > (kMostBytes >> shift->second)) {
    throw CLI::ValidationError(option, "'" + text + "' is not a size such as 8, 4K, 25M, of at most 1024G");
  }
  return std::max<std::size_t>(number << shift->second, sizeof(float));
}

template <typename Number>
Number number_of(const std::string& option, const std::string& text, Number least) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= least)) {
    throw CLI::ValidationError(option, "'" + text + "' is not a number from " + std::to_string(least) + " up");
  }
  return number;
}

double seconds_of(const std::string& option, const std::string& text) {
  const auto time = base::parse_duration(text);
  if (time && *time >= std::chrono::milliseconds(1)) return time->count();
  throw CLI::ValidationError(option, "'" + text + "' is not a time from 0.001 s up, such as 0.5, 500ms or 10m");
}

template <typename Target, typename Parse>
void add_value(CLI::App& app, const std::string& name, const char* value_name, Target& target, Parse parse,
               const char* help) {
  const auto take = [&target, parse, name](const CLI::results_t& values) {
    target = parse(name, values.back());
    return true;
  };
  app.add_option(name, CLI::callback_t(take), help)->type_name(value_name)->take_last();
}

std::vector<std::size_t> sizes_of(const std::string& option, const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    sizes.push_back(bytes_of(option, text.substr(from, comma - from)));
    from = comma + 1;
  }
  return sizes;
}

}  // namespace

int iterations_within(double seconds, double microseconds_per_call, int calls) {
  constexpr double kLeast = 5;
  constexpr double kMost = 20'000;
  return static_cast<int>(std::clamp(seconds * 1e6 / std::max(microseconds_per_call * calls, 1.0), kLeast, kMost));
}

void declare_bench_options(CLI::App& app, BenchOptions& options) {
  app.option_defaults()->group(kGroup)->configurable(false);
  app.add_option("operation", CLI::callback_t([&options, known = options.operations](const CLI::results_t& words) {
                   for (const std::string& word : words) {
                     if (std::find(known.begin(), known.end(), word) != known.end()) continue;
                     throw CLI::ValidationError("unknown operation '" + word + "'");
                   }
                   options.operations = words;
                   return true;
                 }),
                 "Measure these operations: all_reduce, broadcast, all_gather, reduce_scatter, all_to_all.")
      ->expected(-1)
      ->take_all();
  add_value(app, "--min-bytes", "N", options.min_bytes, bytes_of,
            "Measure sizes from this one on, such as 8, 4K or 1M. [default: 8]");
  add_value(app, "--max-bytes", "N", options.max_bytes, bytes_of, "Measure sizes up to this one. [default: 256M]");
  const auto factor = [](const std::string& option, const std::string& text) {
    return number_of<std::size_t>(option, text, 2);
  };
  add_value(app, "--step-factor", "N", options.factor, factor,
            "Multiply each size by this factor to get the next. [default: 4]");
  add_value(app, "--sizes", "N,N,...", options.sizes, sizes_of, "Measure these sizes instead.");
  const auto count = [](const std::string& option, const std::string& text) { return number_of(option, text, 1); };
  add_value(app, "--iterations", "N", options.iterations, count,
            "Repeat each size this many times. [default: as many as fit into --seconds]");
  add_value(app, "--seconds", "S", options.seconds, seconds_of, "Measure each size for this long. [default: 0.3]");
  app.add_flag("--own-buffers", options.own_buffers,
               "Use the program's own memory instead of ProcessGroup::allocate().");
  app.add_flag("--no-check", options.no_check, "Do not check the results.");
  app.add_flag("--json", options.json, "Print one JSON object per line.");
  app.final_callback([&options] {
    if (options.min_bytes <= options.max_bytes) return;
    throw CLI::ValidationError("--min-bytes " + std::to_string(options.min_bytes) + " is more than --max-bytes " +
                               std::to_string(options.max_bytes));
  });
}

std::vector<std::string> bench_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() != kGroup || option->count() == 0) continue;
    if (option->get_positional()) {
      words = option->results();
      continue;
    }
    words.push_back(option->get_name());
    if (option->get_expected_min() > 0) words.push_back(option->results().back());
  }
  return words;
}

std::optional<BenchOptions> parse_bench_options(int argc, const char* const* argv) {
  BenchOptions options;
  CLI::App app("Measures collectives between the ranks that were launched, in the columns of nccl-tests.", "ddp_bench");
  declare_bench_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument(error.what());
  }
  return options;
}

}  // namespace ddp::bench
