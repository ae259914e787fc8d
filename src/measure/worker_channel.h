// Messages between the tuner and a worker process: JSON, each in a frame of a word that says what
// it is (and of which version), its length, and its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/support/json.h"

namespace heddle::measuring {

/// What both sides must have in common: frames, requests and answers. Part of every frame.
inline constexpr int kWorkerProtocol = 1;

/// Owns one end of a stream socket, or of two pipes.
class Channel {
 public:
  explicit Channel(int fd = -1) : in_(fd), out_(fd) {}
  Channel(int in, int out) : in_(in), out_(out) {}
  ~Channel() { close(); }
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;

  int fd() const { return in_; }
  void close();

  /// False when the other end is gone. Blocks while the socket is full. Throws a User error for a
  /// message that is longer than any may be.
  bool send(const Json& message);
  /// The next message, waiting for it; nothing at the end of the stream. Takes no byte more than
  /// that from the socket: the next message may be for another process (a worker's runner, or the
  /// worker after it). Throws an Error for what is no frame, for one that ends in the middle, and
  /// for one of which the rest does not come.
  std::optional<Json> receive();

  enum class State : uint8_t { Open, Closed };
  /// Takes in what has arrived, without waiting.
  State read_available();
  /// A whole message, if one has arrived. Throws an Error when it is no message.
  std::optional<Json> next();

 private:
  bool read_exactly(char* bytes, size_t count, bool waits);

  int in_, out_;
  std::string buffer_;
};

}  // namespace heddle::measuring
