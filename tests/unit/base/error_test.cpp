#include <ddp/error.h>

#include "support/catch.h"

using ddp::ErrorKind;

TEST_CASE("each error kind is printed as the name of its enumerator") {
  CHECK(to_string(ErrorKind::invalid_argument) == "invalid_argument");
  CHECK(to_string(ErrorKind::timeout) == "timeout");
  CHECK(to_string(ErrorKind::peer_lost) == "peer_lost");
  CHECK(to_string(ErrorKind::mismatch) == "mismatch");
  CHECK(to_string(ErrorKind::unavailable) == "unavailable");
  CHECK(to_string(ErrorKind::aborted) == "aborted");
  CHECK(to_string(ErrorKind::corrupt) == "corrupt");
  CHECK(to_string(ErrorKind::internal) == "internal");
}

TEST_CASE("a copied error keeps its kind and message") {
  const ddp::Error error(ErrorKind::peer_lost, "rank 3 has exited");
  const ddp::Error copy = error;  // NOLINT(performance-unnecessary-copy-initialization)
  CHECK(copy.kind() == ErrorKind::peer_lost);
  CHECK(std::string(copy.what()) == "rank 3 has exited");
}
