// Messages between the tuner and a worker process: JSON over a socket, each after its length.
#pragma once

#include <optional>
#include <string>

#include "heddle/support/json.h"

namespace heddle::search {

/// Owns one end of a stream socket.
class Channel {
 public:
  explicit Channel(int fd = -1) : fd_(fd) {}
  ~Channel() { close(); }
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;

  int fd() const { return fd_; }
  void close();

  /// False when the other end is gone. Blocks while the socket is full.
  bool send(const Json& message);
  /// The next message, waiting for it; nothing at the end of the stream. Takes no byte more than
  /// that from the socket: the next message may be for another process (a worker's runner, or the
  /// worker after it).
  std::optional<Json> receive();

  enum class State : uint8_t { Open, Closed };
  /// Takes in what has arrived, without waiting.
  State read_available();
  /// A whole message, if one has arrived. Throws an Error when it is no message.
  std::optional<Json> next();

 private:
  bool read_exactly(char* bytes, size_t count);

  int fd_;
  std::string buffer_;
};

}  // namespace heddle::search
