// Keeps the events of answers in memory, so that a client can read on after a lost connection. Bounded in
// bytes and in time. An answer is found only by its id, which is random, and by the owner who started it.
// I/O thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/response_store.h"
#include "server/http/http_error.h"

namespace nibble::server {

class KeptAnswers;

// The server-sent events of one answer, numbered from 0. It grows until end() or fail().
class KeptAnswer : public std::enable_shared_from_this<KeptAnswer> {
 public:
  struct Kind {
    bool has_id_lines{false};      // each event gets a line "id: NUMBER"; else its JSON has the number
    bool ends_unread{false};       // cancel it if no client reads it for the time that answers are kept
    std::function<void()> stop{};  // stops the answer, which then calls end() or fail()
  };
  KeptAnswer(KeptAnswers& store, boost::asio::any_io_executor executor, OwnedId id, Kind kind);

  const std::string& id() const { return id_.id; }

  // Adds whole events and wakes the readers. Comments are not kept: they only tell readers that it began.
  void append(std::string_view events);
  void end(int status);
  void fail(HttpError error);  // ended before its first event

  bool has_begun() const { return has_begun_; }  // the first event, even a comment, has come
  bool has_ended() const { return status_ != 0; }
  int status() const { return status_; }
  const std::optional<HttpError>& failure() const { return failure_; }

  size_t first() const { return first_; }                  // number of the oldest event that is kept
  size_t next() const { return first_ + events_.size(); }  // number that the next event will have
  // Returns the events from `number` on, at least one and about `most_bytes`, and adds their count to
  // `number`, which must be from first() to next() - 1.
  std::string read(size_t& number, size_t most_bytes) const;

  // A client that reads. While one exists, the answer is not dropped for its age.
  class Reader {
   public:
    explicit Reader(std::shared_ptr<KeptAnswer> answer);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // Waits until the answer has grown or ended, or wake(). Returns false after `patience`.
    boost::asio::awaitable<bool> wait(std::chrono::milliseconds patience);
    void wake();  // for a client that has disconnected

   private:
    std::shared_ptr<KeptAnswer> answer_;
    boost::asio::steady_timer changed_;
  };

 private:
  friend class KeptAnswers;
  void add_event(std::string event);
  size_t drop_first();  // returns the bytes that the event took
  void wake_readers();
  void begin_to_expire();

  KeptAnswers* store_;  // null: it was dropped, and keeps no further events
  OwnedId id_;
  Kind kind_;
  std::deque<std::string> events_;
  size_t first_{0};
  size_t num_bytes_{0};
  bool has_begun_{false};
  int status_{0};
  std::optional<HttpError> failure_;
  std::vector<Reader*> readers_;
  boost::asio::steady_timer expiry_;
};

class KeptAnswers {
 public:
  struct Limits {
    size_t max_bytes{0};                // of all answers; 0: none is kept
    std::chrono::milliseconds time{0};  // after the end, or after the last reader has left; 0: none is kept
  };
  explicit KeptAnswers(Limits limits) : limits_(limits) {}

  bool are_kept() const { return limits_.max_bytes > 0 && limits_.time.count() > 0; }
  std::chrono::milliseconds time() const { return limits_.time; }

  std::shared_ptr<KeptAnswer> add(const boost::asio::any_io_executor& executor, OwnedId id,
                                  KeptAnswer::Kind kind);
  std::shared_ptr<KeptAnswer> find(const OwnedId& id) const;  // null if it is absent
  // Drops an answer, and stops it if it has not ended. Returns false if it is absent.
  bool erase(const OwnedId& id);
  void clear();  // drops all without stopping them, before the I/O context ends

  size_t num_bytes() const { return num_bytes_; }
  size_t num_answers() const { return answers_.size(); }

 private:
  friend class KeptAnswer;
  void grow(size_t num_bytes);
  void drop(const std::shared_ptr<KeptAnswer>& answer);

  Limits limits_;
  size_t num_bytes_{0};
  std::list<std::shared_ptr<KeptAnswer>> answers_;  // oldest first
  std::map<OwnedId, std::list<std::shared_ptr<KeptAnswer>>::iterator> by_id_;
};

}  // namespace nibble::server
