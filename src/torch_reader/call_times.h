// CallTimes reads when collectives of Gloo began and ended in a PyTorch worker (wire/call_times_layout.h), and adds
// that to what PyTorch's recorder shows of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch_reader/recording.h"
#include "wire/call_times_layout.h"

namespace ddp::torch_reader {

class CallTimes {
 public:
  // Opens the memory at this path, if there is none yet.
  void open(const std::string& path);
  // Takes what was noted since the last call. Returns whether there is a memory.
  bool read();
  // Reads, and sets `finished_at` of the calls whose end is known, and the counters of the groups if they are known to
  // be larger. The groups are those of Gloo's recorder, which was asked before.
  void add_to(std::vector<RecordedGroup>& groups);

  struct Counters {
    std::uint64_t called = 0;     // as in RecordedGroup
    std::uint64_t finished = 0;   // as in RecordedGroup
    std::uint64_t called_at = 0;  // CLOCK_REALTIME, nanoseconds, of the latest call
  };
  // Returns the counters of a group that add_to() has found, or std::nullopt if a call may be missing.
  std::optional<Counters> counters_of(std::uint64_t identity) const;

 private:
  struct Unmap {
    void operator()(const wire::CallTimesLayout* memory) const;
  };
  struct Time {  // as in wire::CallTime
    std::uint64_t at;
    std::uint64_t work;
    std::uint64_t group;
    std::uint64_t sequence;
  };
  struct Call {
    std::uint64_t begun_at = 0;    // CLOCK_REALTIME, nanoseconds, as the others
    std::uint64_t goes_on_at = 0;  // when its caller went on; 0 if that was not noted yet
    std::uint64_t ended_at = 0;    // 0 if that was not noted yet
  };
  struct Place {
    std::uint64_t group = 0;  // PyTorch's object for it
    std::uint64_t sequence = 0;
  };
  struct Group {
    std::map<std::uint64_t, Call> calls;  // by sequence
    std::uint64_t first = 0;              // number of the first call that was noted
    std::uint64_t finished = 0;           // as the recorder has shown it
  };
  struct Likeness {
    std::size_t same = 0;  // number of calls that may be the same
    std::size_t both = 0;  // number of calls that both know

    // The clock may have been set during a call.
    bool is_close() const { return 2 * same > both; }
  };

  void take(const Time& time);
  static bool may_be_same(const Call& noted, const RecordedCall& call);
  static Likeness likeness_of(const Group& noted, const RecordedGroup& group);
  // Returns what was noted of this group, or null if it is not known what that is.
  Group* find(const RecordedGroup& group);

  std::unique_ptr<const wire::CallTimesLayout, Unmap> memory_;
  std::uint64_t next_ = 0;                          // number of entries that were read
  std::map<std::uint64_t, Place> open_;             // calls that have not ended, by PyTorch's object for the call
  std::map<std::uint64_t, Group> groups_;           // by PyTorch's object for the group
  std::map<std::uint64_t, std::uint64_t> objects_;  // PyTorch's object for a group, by the group's identity
};

}  // namespace ddp::torch_reader
