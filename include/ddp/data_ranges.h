// Which bytes, lines or files of a data set are this rank's: for data that are read in order, where DistributedSampler
// deals out samples one by one. Every rank asks with its own rank and the same other arguments; nothing is
// communicated.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Bytes [first, end) of a file.
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - first; }
  bool operator==(const ByteRange&) const = default;
};

struct FileSize {
  std::string name;
  std::uint64_t bytes = 0;
};

// A part of a file.
struct FilePiece {
  std::string name;
  ByteRange range;

  bool operator==(const FilePiece&) const = default;
};

// All functions throw invalid_argument if rank is not in [0, size).

// This rank's part of `bytes` bytes of records of `record_bytes`: the parts follow each other in rank order, are equal
// to within one record, and split none. Empty on the last ranks if there are fewer records than ranks. Throws
// invalid_argument if what is left after the last record is no whole one.
DDP_EXPORT ByteRange byte_range(std::uint64_t bytes, int rank, int size, std::uint64_t record_bytes = 1);

// This rank's part of a text file, in whole lines: those that begin in its byte_range. So every line is exactly one
// rank's, its end-of-line byte included (which the last may lack), and a rank has none if one line fills its part.
// Reads around the borders only. Throws unavailable, with the system's reason, if the file cannot be read.
DDP_EXPORT ByteRange line_range(const std::string& path, int rank, int size);

// This rank's files, sorted by name: one after the other, the largest first, goes to the rank that has the fewest
// bytes. Ties are decided by names and ranks, so the order of `files` does not matter. Throws invalid_argument if there
// are fewer files than ranks.
DDP_EXPORT std::vector<std::string> whole_files(std::span<const FileSize> files, int rank, int size);

// This rank's part of all files, as if they were one, in the order of `files`, which must be the same on all ranks: as
// byte_range, which it throws as, with each file made up of whole records.
DDP_EXPORT std::vector<FilePiece> file_pieces(std::span<const FileSize> files, int rank, int size,
                                              std::uint64_t record_bytes = 1);

}  // namespace ddp
