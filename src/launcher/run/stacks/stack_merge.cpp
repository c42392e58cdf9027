#include "launcher/run/stacks/stack_merge.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "launcher/run/stacks/function_name.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kColumns = 118;
constexpr std::size_t kRanksColumns = 40;
constexpr std::size_t kLinesOfStack = 3;
constexpr std::size_t kLinksOfWait = 3;  // links of a chain that shows only how a thread waits

// Represents a frame of a chain.
struct Link {
  std::string name;
  std::string place;  // place in the source, such as "train.py:12"; may be empty
};

std::string without_hex(std::string_view text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size(); ++i) {
    kept += text[i];
    if (!kept.ends_with("0x")) continue;
    while (i + 1 < text.size() &&
           std::string_view("0123456789abcdefABCDEF").find(text[i + 1]) != std::string_view::npos)
      ++i;
  }
  return kept;
}

void sort_odd_first(std::vector<MergedStack>& stacks) {
  std::ranges::stable_sort(stacks, [](const MergedStack& one, const MergedStack& other) {
    return std::pair(one.ranks.size(), one.ranks.front()) < std::pair(other.ranks.size(), other.ranks.front());
  });
}

void add_ranks(MergedStack& stack, const std::vector<int>& ranks) {
  stack.ranks.insert(stack.ranks.end(), ranks.begin(), ranks.end());
  std::ranges::sort(stack.ranks);
  stack.ranks.erase(std::unique(stack.ranks.begin(), stack.ranks.end()), stack.ranks.end());
}

// Returns the position of the opening bracket of the frame's place, or npos if it has none. A file's name may contain
// brackets that are never closed.
std::size_t begin_of_place(std::string_view frame) {
  if (!frame.ends_with(')')) return std::string_view::npos;
  const std::vector<std::size_t> ends = closing_brackets(frame);
  const auto open = std::ranges::find(ends, frame.size() - 1);
  const auto begin = open == ends.end() ? frame.rfind(" (") + 1 : static_cast<std::size_t>(open - ends.begin());
  return begin > 0 && frame[begin - 1] == ' ' ? begin : std::string_view::npos;
}

// Splits a frame such as "train_epoch(Model&) (train+0x1a2f)". The last brackets contain the place, if a space precedes
// them.
Link to_link(std::string_view frame) {
  Link link{std::string(frame), ""};
  if (const std::size_t begin = begin_of_place(frame); begin != std::string_view::npos) {
    link.name = frame.substr(0, begin - 1);
    link.place = frame.substr(begin + 1, frame.size() - begin - 2);
  }
  const std::size_t colon = link.place.rfind(':');
  const bool in_source = colon != std::string_view::npos && colon + 1 < link.place.size() &&
                         link.place.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  if (!in_source && link.name != "??") link.place.clear();
  if (link.name == "??") {
    link.name = std::string(frame);
    link.place.clear();
  } else {
    link.name = without_parameters(link.name);
  }
  return link;
}

bool is_unknown(const Link& link) {
  return link.name.starts_with("??");
}

// Returns whether the function is only a library's way to wait, for whatever event.
bool only_waits(const Link& link) {
  constexpr std::array<std::string_view, 5> kBeginnings = {
      "futex", "lll_", "std::condition_variable::", "std::this_thread::", "std::__condvar::"};
  constexpr std::string_view kNames =
      " syscall internal_syscall_cancel syscall_cancel syscall_cancel_arch kernel_vsyscall poll ppoll select pselect "
      "epoll_wait epoll_pwait epoll_pwait2 nanosleep clock_nanosleep usleep sleep sched_yield pthread_cond_wait "
      "pthread_cond_timedwait pthread_cond_clockwait pthread_cond_wait_common restore_rt ";
  std::string_view name = link.name;
  // Names may begin with underscores, as in "___pthread_cond_wait" and "__GI___poll".
  name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  for (const std::string_view prefix : {"GI_", "libc_"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  }
  if (name.ends_with("64")) name.remove_suffix(2);
  return std::ranges::any_of(kBeginnings,
                             [&](std::string_view beginning) {
                               return name.starts_with(beginning) || link.name.starts_with(beginning);
                             }) ||
         kNames.find(" " + std::string(name) + " ") != std::string_view::npos;
}

bool starts_a_program(const Link& link) {
  constexpr std::array<std::string_view, 8> kNames = {"_start",  "start_thread", "clone",     "clone3",
                                                      "__clone", "__clone3",     "_run_code", "_run_module_as_main"};
  return link.name.starts_with("__libc_start") || std::ranges::find(kNames, link.name) != kNames.end();
}

// Returns whether this is a function of CPython itself. A C stack does not contain the names of Python functions.
bool is_interpreter(const Link& link) {
  constexpr std::array<std::string_view, 15> kBeginnings = {
      "_PyEval", "_PyObject",     "_PyFunction", "_PyRun_", "PyEval_",           "PyObject_",
      "PyRun_",  "PyVectorcall_", "cfunction_",  "pymain_", "method_vectorcall", "run_eval_code_obj",
      "run_mod", "pyrun_",        "do_call_core"};
  return link.name == "Py_RunMain" || link.name == "Py_BytesMain" || link.name == "Py_Main" ||
         std::ranges::any_of(kBeginnings, [&](std::string_view beginning) { return link.name.starts_with(beginning); });
}

// Shortens a hundred functions of the interpreter, as in "time_sleep ← Python".
void shorten_interpreter(std::vector<Link>& chain) {
  for (Link& link : chain) {
    if (is_interpreter(link)) link = {"Python", ""};
  }
  const auto both_python = [](const Link& one, const Link& other) {
    return one.name == "Python" && other.name == "Python" && one.place.empty() && other.place.empty();
  };
  chain.erase(std::unique(chain.begin(), chain.end(), both_python), chain.end());
}

// If Python's libraries call each other, keeps only the innermost and the outermost function. In "(data/loader.py:3)",
// the file is a library's, because it has a folder.
void shorten_libraries(std::vector<Link>& chain) {
  const auto is_library = [&](std::size_t i) {
    return i < chain.size() && chain[i].place.find('/') != std::string::npos;
  };
  std::vector<Link> kept;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const bool is_between = i > 0 && is_library(i - 1) && is_library(i) && is_library(i + 1);
    if (!is_between) kept.push_back(chain[i]);
  }
  for (Link& link : kept) link.place.erase(0, link.place.rfind('/') + 1);
  chain = std::move(kept);
}

std::vector<Link> chain_of(const std::vector<std::string>& frames) {
  std::vector<Link> chain;
  for (const std::string& frame : frames) chain.push_back(to_link(frame));
  // The frames that called this one may have no name.
  const auto start =
      std::ranges::find_if(chain, [](const Link& link) { return link.name.starts_with("__libc_start"); });
  if (start != chain.begin()) chain.erase(start, chain.end());
  while (chain.size() > 1 && starts_a_program(chain.back())) chain.pop_back();
  const auto is_said = [](const Link& link) { return !is_unknown(link) && !only_waits(link); };
  if (std::ranges::none_of(chain, is_said)) {
    // If nothing else is known, the chain says how the thread waits, and in which unknown function.
    const auto unknown = std::ranges::find_if(chain, is_unknown);
    if (unknown != chain.begin()) chain.erase(chain.begin(), std::prev(unknown));
    if (chain.size() > kLinksOfWait) chain.resize(kLinksOfWait);
    return chain;
  }
  chain.erase(chain.begin(), std::ranges::find_if(chain, is_said));
  std::erase_if(chain, is_unknown);
  const auto main = std::ranges::find(chain, "main", &Link::name);
  if (main != chain.end()) chain.erase(std::next(main), chain.end());
  shorten_interpreter(chain);
  shorten_libraries(chain);
  return chain;
}

// Returns the names of the links, with the places of the first `places` links.
std::vector<std::string> words_of(const std::vector<Link>& chain, std::size_t places) {
  std::vector<std::string> words;
  for (const Link& link : chain) {
    const bool with_place = words.size() < places && !link.place.empty();
    words.push_back(link.name + (with_place ? " (" + link.place + ")" : ""));
  }
  return words;
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Returns text such as "ranks 0, 2-3". If there are too many single ranks, it contains only the first ones.
std::string ranks_text(const std::vector<int>& ranks) {
  std::string list = base::rank_list(ranks);
  if (list.size() > kRanksColumns) {
    list = list.substr(0, list.rfind(", ", kRanksColumns)) + ", ... (" + std::to_string(ranks.size()) + " in all)";
  }
  return base::plural(ranks.size(), "rank ", "ranks ") + list;
}

// Contains "prefix: one ← two" in lines. Text beyond the maximum number of lines is left out.
struct Wrapped {
  std::vector<std::string> lines;
  bool is_whole = true;
};

Wrapped wrap(const std::string& prefix, const std::vector<std::string>& words, std::size_t most) {
  constexpr std::string_view kArrow = " ← ";
  constexpr std::string_view kIndent = "    ";
  Wrapped wrapped{{prefix + ": "}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = (i == 0 ? "" : std::string(kArrow)) + words[i];
    // Reserves space for " ← ...", in case the next word does not fit.
    const std::size_t spare = i + 1 < words.size() && wrapped.lines.size() == most ? 6 : 0;
    if (i == 0 || columns(wrapped.lines.back()) + columns(word) + spare <= kColumns) {
      wrapped.lines.back() += word;
    } else if (wrapped.lines.size() < most) {
      wrapped.lines.push_back(std::string(kIndent) + word.substr(1));
    } else {
      wrapped.lines.back() += std::string(kArrow) + "...";
      wrapped.is_whole = false;
      break;
    }
  }
  return wrapped;
}

// Returns the lines of a chain, with the places of as many inner links as fit.
std::vector<std::string> tell(const std::string& prefix, const std::vector<Link>& chain, std::size_t most_lines) {
  for (std::size_t places = chain.size(); places > 0; --places) {
    if (Wrapped wrapped = wrap(prefix, words_of(chain, places), most_lines); wrapped.is_whole)
      return std::move(wrapped.lines);
  }
  return wrap(prefix, words_of(chain, 0), most_lines).lines;
}

}  // namespace

std::vector<MergedStack> merge_stacks(std::span<const RankStacks> ranks) {
  std::vector<const RankStacks*> ascending;
  for (const RankStacks& rank : ranks) {
    if (!rank.threads.empty() && !rank.threads.front().frames.empty()) ascending.push_back(&rank);
  }
  std::ranges::stable_sort(ascending, {}, &RankStacks::rank);
  std::vector<MergedStack> stacks;
  std::map<std::vector<std::string>, std::size_t> places;  // index in `stacks`, by frames
  for (const RankStacks* rank : ascending) {
    const ThreadStack& thread = rank->threads.front();
    std::vector<std::string> key;
    for (const std::string& frame : thread.frames) key.push_back(without_hex(frame));
    const auto [place, is_new] = places.emplace(std::move(key), stacks.size());
    if (is_new) stacks.push_back({{}, thread.name, thread.frames});
    std::vector<int>& same = stacks[place->second].ranks;
    if (same.empty() || same.back() != rank->rank) same.push_back(rank->rank);
  }
  sort_odd_first(stacks);
  return stacks;
}

std::vector<std::string> essence(std::span<const MergedStack> stacks, std::size_t most_lines) {
  std::vector<MergedStack> groups;  // stacks for which the same text is shown
  std::map<std::vector<std::string>, std::size_t> places;
  for (const MergedStack& stack : stacks) {
    if (stack.ranks.empty() || stack.frames.empty()) continue;
    std::vector<std::string> key;
    for (const std::string& word : words_of(chain_of(stack.frames), std::string_view::npos))
      key.push_back(without_hex(word));
    const auto [place, is_new] = places.emplace(std::move(key), groups.size());
    if (is_new) groups.push_back({{}, stack.thread, stack.frames});
    add_ranks(groups[place->second], stack.ranks);
  }
  sort_odd_first(groups);
  std::vector<std::string> lines;
  if (groups.empty() || most_lines == 0) return lines;
  const bool all = groups.size() <= most_lines;
  const std::size_t shown = all ? groups.size() : most_lines - 1;  // the last line counts the others
  const std::size_t each = all ? std::min(most_lines / groups.size(), kLinesOfStack) : 1;
  for (const MergedStack& group : std::span(groups).first(shown)) {
    const std::vector<std::string> wrapped = tell(ranks_text(group.ranks), chain_of(group.frames), each);
    lines.insert(lines.end(), wrapped.begin(), wrapped.end());
  }
  if (!all) {
    MergedStack others;
    for (const MergedStack& group : std::span(groups).subspan(shown)) add_ranks(others, group.ranks);
    lines.push_back(ranks_text(others.ranks) + ": " +
                    base::counted(static_cast<std::int64_t>(groups.size() - shown), "other stack"));
  }
  return lines;
}

}  // namespace ddp::launcher
