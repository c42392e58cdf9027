// These functions return the bytes, lines or files of a data set that belong to this rank. They are for data that are
// read in order; DistributedSampler distributes single samples. Every rank passes its own rank and the same other
// arguments. They do not communicate.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Describes bytes [first, end) of a file.
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

// Describes a part of a file.
struct FilePiece {
  std::string name;
  ByteRange range;

  bool operator==(const FilePiece&) const = default;
};

// All functions throw invalid_argument if rank is not in [0, size).

// Returns this rank's part of `bytes` bytes, which consist of records of `record_bytes`. The parts follow each other in
// rank order, are equal to within one record, and do not split a record. The last ranks get empty parts if there are
// fewer records than ranks. Throws invalid_argument if `bytes` is not a multiple of `record_bytes`.
DDP_EXPORT ByteRange byte_range(std::uint64_t bytes, int rank, int size, std::uint64_t record_bytes = 1);

// Returns this rank's part of a text file in whole lines: the lines that begin in its byte_range. Every line belongs to
// exactly one rank, including its end-of-line byte, which the last line may lack. A rank gets no lines if one line
// fills its part. The function reads only around the borders. Throws unavailable, with the system's reason, if the file
// cannot be read.
DDP_EXPORT ByteRange line_range(const std::string& path, int rank, int size);

// Returns this rank's files, sorted by name. Files are assigned one after the other, the largest first, to the rank
// that has the fewest bytes. Names and ranks decide ties, so the order of `files` does not matter. Throws
// invalid_argument if there are fewer files than ranks.
DDP_EXPORT std::vector<std::string> whole_files(std::span<const FileSize> files, int rank, int size);

// Returns this rank's part of all files, as if they were one file in the order of `files`. That order must be the same
// on all ranks. Each file must consist of whole records. It divides the bytes, and throws, as byte_range does.
DDP_EXPORT std::vector<FilePiece> file_pieces(std::span<const FileSize> files, int rank, int size,
                                              std::uint64_t record_bytes = 1);

}  // namespace ddp
