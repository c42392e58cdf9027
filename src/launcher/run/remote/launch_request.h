// Defines what a launcher that starts others over ssh sends to each of them through standard input, and what they reply
// through standard output. The types are plain values with functions for their text form, which are pure.
//
//   this node                             ssh                         ddplaunch on-host
//   the launch request, a line           ->   reads it, changes into the directory, makes its plan
//                                         <-    mark + "ready"
//   {"go":true}, when all hosts are ready  ->   starts its part of the job; its output goes through the same two pipes
//   {"signal":15}, for each signal         ->   handles it as if it had received the signal
//                                         <-    mark + "ended CODE", its last reply
//
// The end of the input is the end of the connection. The launcher on the host then ends its workers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

inline constexpr int kHostProtocol = 1;

struct LaunchRequest {
  std::string nonce;                     // part of the mark, so that no program can print it by accident
  std::string controller;                // name of the node that sends the launch request
  std::string host;                      // the receiver, as the user names it
  std::string directory;                 // working directory
  std::vector<std::string> words;        // command line, beginning with the launcher's name
  std::vector<std::string> environment;  // "NAME=value" lines, set in addition to the login's variables
  std::string token;                     // the job's token; empty if there is none

  friend bool operator==(const LaunchRequest&, const LaunchRequest&) = default;
};

// Returns a line without its end. decode_request() restores bytes of any kind.
std::string encode(const LaunchRequest& request);
// The failure is a sentence for the user.
base::Result<LaunchRequest> decode_request(std::string_view line);

// Describes a later message.
struct ControllerWord {
  bool start = false;
  int signal = 0;  // 0 if there is none

  friend bool operator==(const ControllerWord&, const ControllerWord&) = default;
};
std::string encode(const ControllerWord& word);
std::optional<ControllerWord> decode_word(std::string_view line);

// Returns the text before a reply. It may be in the middle of a line that a worker has left unfinished.
std::string reply_mark(const std::string& nonce);

struct LaunchReply {
  bool ready = false;
  std::optional<int> ended;  // the exit code

  friend bool operator==(const LaunchReply&, const LaunchReply&) = default;
};
std::string encode(const LaunchReply& reply);
// `text` is what follows the mark, with or without the end of the line.
std::optional<LaunchReply> decode_reply(std::string_view text);

}  // namespace ddp::launcher
