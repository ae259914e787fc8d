// Messages between the tuner and a worker process: JSON in frames. A frame has a word with the
// format and its version, the length, and the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/support/json.h"

namespace heddle::measuring {

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

  /// Sends a message. Returns false when the other end is closed. Blocks while the socket is full.
  /// Throws a User error for a message above the limit of length.
  bool send(const Json& message);
  /// Waits for the next message and returns it; nothing at the end of the stream. Reads no byte
  /// beyond it from the socket, because the next message may be for another process (a worker's
  /// runner, or the next worker). Throws an Error for an invalid or incomplete frame, and when the
  /// rest of a frame does not arrive.
  std::optional<Json> receive();

  enum class State : uint8_t { Open, Closed };
  /// Reads the available bytes without waiting.
  State read_available();
  /// A whole message, if one has arrived. Throws an Error for an invalid message.
  std::optional<Json> next();

 private:
  bool read_exactly(char* bytes, size_t count, bool waits);

  int in_, out_;
  std::string buffer_;
};

}  // namespace heddle::measuring
