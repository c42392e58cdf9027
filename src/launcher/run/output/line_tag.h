// LineTag makes the text before a worker's line on the console. It is pure: the caller sets the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Represents ranks of this node as bits: local rank r is bit r % 64 of word r / 64.
using RankBits = std::span<const std::uint64_t>;

// Returns ascending local ranks.
std::vector<int> ranks_of(RankBits bits);

//   LineTag tag("[${rank}] ", {"node0", "trainer"}, true);
//   tag.set_rank(0, 8);
//   tag.of_rank(0);  // "[8] ", in the colour of the rank
class LineTag {
 public:
  struct Names {
    std::string node;
    std::string role;
  };

  // `format` is text with ${rank}, ${local_rank}, ${node}, ${role}, ${role_name} (torchelastic's name for the role) and
  // ${time} (hours, minutes and seconds of the local time). The braces may be left out. "$$" is a "$". Every other name
  // stays as it is written, as in torchelastic. Names are shown on one line, with the characters that control a
  // terminal escaped.
  LineTag(const std::string& format, const Names& names, bool color);

  // Sets the global rank of a local rank. Until then, both are the same.
  void set_rank(int local_rank, int rank);
  // Sets the node's name from now on.
  void set_node(const std::string& node);
  void set_time(std::chrono::system_clock::time_point now);

  bool empty() const { return parts_.empty(); }
  // The results are valid until the next call of the same function, or of a function that sets something.
  std::string_view of_rank(int local_rank);
  std::string_view of_ranks(RankBits bits);

  // Returns the tag without colours.
  std::string plain(int local_rank) const { return render({&local_rank, 1}); }

 private:
  enum class Field { text, rank, local_rank, node, role, time };
  struct Part {
    Field field;
    std::string text;
  };

  void parse(const std::string& format);
  void add_text(std::string_view text);
  int rank_of(int local_rank) const;
  std::string render(std::span<const int> local_ranks) const;
  std::string render_colored(std::span<const int> local_ranks) const;
  void forget();

  std::vector<Part> parts_;
  Names names_;
  bool color_;
  bool uses_time_ = false;
  std::time_t second_ = -1;
  std::string time_;
  std::vector<int> ranks_;                          // by local rank; -1 if not set
  std::vector<std::optional<std::string>> cached_;  // by local rank
  std::vector<std::uint64_t> several_bits_;         // the ranks of `several_`
  std::optional<std::string> several_;
};

}  // namespace ddp::launcher
