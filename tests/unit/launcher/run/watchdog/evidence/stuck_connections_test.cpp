#include "launcher/run/watchdog/evidence/stuck_connections.h"

#include <unistd.h>

#include <chrono>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

const std::string kTitle =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

}  // namespace

TEST_CASE("the rows of connections say what is not acknowledged") {
  const auto rows = read_tcp_rows(kTitle +
                                      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     "
                                      "0        0 17 1 0000000000000000 100\n"
                                      "   1: 02004D0A:A3B2 03004D0A:1F91 01 00010000:00000000 01:00000123 00000006     "
                                      "0        0 4711 2 0000000000000000 100\n"
                                      "   2: 02004D0A:A3B4 03004D0A:1F92 02 00000001:00000000 01:00000123 00000002     "
                                      "0        0 4712 2 0000000000000000 100\n"
                                      "   3: garbage\n",
                                  false);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].own.text() == "10.77.0.2:41906");
  CHECK(rows[0].other.text() == "10.77.0.3:8081");
  CHECK(rows[0].unacknowledged == 65'536);
  CHECK(rows[0].sent_again == 6);
  CHECK(rows[0].inode == 4711);
  CHECK(read_tcp_rows("", false).empty());
}

TEST_CASE("the rows of IPv6 connections are read, too") {
  const auto rows = read_tcp_rows(
      kTitle +
          "   0: 000000FD000000000000000002000000:0050 000000FD000000000000000003000000:0051 01 00000007:00000000 "
          "01:00000001 00000004 0 0 9 2 0000000000000000 100\n",
      true);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].own.text() == "[fd00::2]:80");
  CHECK(rows[0].unacknowledged == 7);
}

TEST_CASE("workers without a stuck connection say nothing") {
  const std::pair<int, pid_t> own{0, ::getpgrp()};
  const EvidenceSource source =
      ask_connections(std::span(&own, 1), std::chrono::steady_clock::now() + std::chrono::seconds(5));
  CHECK(source.text.empty());
  CHECK(source.missing.empty());
}
