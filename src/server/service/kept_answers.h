// Keeps the events of answers in memory, so that a client can read on after a lost connection. The memory,
// and the time that an answer is kept, are limited. To find an answer takes its id, which is random, and the
// owner who started it. I/O thread only.
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

// The server-sent events of one answer, numbered from 0. It grows until end(), fail() or break_off().
class KeptAnswer : public std::enable_shared_from_this<KeptAnswer> {
 public:
  struct Kind {
    bool has_id_lines{false};  // each event gets a line "id: NUMBER"; else its JSON has the number
    // whether to cancel a running answer after no client has read it for KeptAnswers::Limits::time
    bool ends_unread{false};
    std::function<void()> stop{};  // stops the generation, so that the answer ends
  };
  KeptAnswer(KeptAnswers& store, const boost::asio::any_io_executor& executor, OwnedId id, Kind kind);

  const std::string& id() const { return id_.id; }

  // Adds whole events and wakes the readers. Comments are not kept: they only show that the answer has begun.
  void append(std::string_view events);
  // Waits while the store is above its limit and a reader has not received all events. Returns at once if the
  // answer was dropped, or after stop_waiting(). The answer must outlive the wait.
  boost::asio::awaitable<void> wait_for_readers();
  void stop_waiting();  // ends the wait; later calls of wait_for_readers() don't wait
  void end(int status);
  void fail(HttpError error);  // ends an answer that has no event yet; readers then get this error
  // Ends an answer whose last events are lost, with status 500. Allocates no memory. Does nothing if the
  // answer has already ended.
  void break_off();

  bool has_begun() const { return has_begun_; }  // whether the first event, even a comment, was appended
  bool has_ended() const { return status_ != 0; }
  bool is_broken_off() const { return is_broken_off_; }
  int status() const { return status_; }
  const std::optional<HttpError>& failure() const { return failure_; }

  size_t first() const { return first_; }                  // number of the oldest event that is kept
  size_t next() const { return first_ + events_.size(); }  // number that the next event will have
  // Returns the events from `number` on, at least one and about `most_bytes`, and adds their count to
  // `number`, which must be from first() to next() - 1.
  std::string read(size_t& number, size_t most_bytes) const;

  // A client that reads. While one exists, the answer is not dropped for its age, and the events that the
  // client has not received are not dropped for lack of memory.
  class Reader {
   public:
    // `number`: number of the first event that the reader gets
    Reader(std::shared_ptr<KeptAnswer> answer, size_t number);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // Waits until the answer has grown or ended, or wake() is called. Returns false after `patience`.
    boost::asio::awaitable<bool> wait(std::chrono::milliseconds patience);
    void wake();  // ends wait(); called when the client has disconnected
    const std::shared_ptr<KeptAnswer>& answer() const { return answer_; }
    size_t number() const { return number_; }  // number of the first event that the client has not received
    void advance(size_t number);               // the client has received the events before `number`

   private:
    friend class KeptAnswer;
    std::shared_ptr<KeptAnswer> answer_;
    size_t number_;
    boost::asio::steady_timer changed_;
  };

 private:
  friend class KeptAnswers;
  void add_event(std::string event);
  size_t drop_first();          // drops the oldest event; returns the number of bytes that this frees
  size_t first_unread() const;  // number of the oldest event that a reader has not received, or next()
  void wake_readers();
  void on_readers_moved();
  void begin_to_expire();

  KeptAnswers* store_;  // null: the answer was dropped and keeps no more events
  OwnedId id_;
  Kind kind_;
  std::deque<std::string> events_;
  size_t first_{0};
  size_t num_bytes_{0};
  bool has_begun_{false};
  int status_{0};
  bool is_broken_off_{false};
  std::optional<HttpError> failure_;
  std::vector<Reader*> readers_;
  bool never_waits_{false};
  boost::asio::steady_timer expiry_;
  // wait_for_readers() sleeps on this timer; cancelling it wakes wait_for_readers()
  boost::asio::steady_timer readers_moved_;
};

class KeptAnswers {
 public:
  struct Limits {
    // Limit on the bytes of all answers together; 0: no answer is kept. Events that a connected reader has
    // not received are kept even above the limit. Writers that call wait_for_readers() exceed it by at most
    // one write per answer.
    size_t max_bytes{0};
    // how long an answer is kept after its end, or after its last reader left; 0: no answer is kept
    std::chrono::milliseconds time{0};
  };
  explicit KeptAnswers(Limits limits) : limits_(limits) {}

  bool are_kept() const { return limits_.max_bytes > 0 && limits_.time.count() > 0; }
  std::chrono::milliseconds time() const { return limits_.time; }

  std::shared_ptr<KeptAnswer> add(const boost::asio::any_io_executor& executor, OwnedId id,
                                  KeptAnswer::Kind kind);
  std::shared_ptr<KeptAnswer> find(const OwnedId& id) const;  // null if it is absent
  // Drops an answer, and stops it if it has not ended. Returns false if it is absent.
  bool erase(const OwnedId& id);
  void clear();  // drops all answers without stopping them; call it while the I/O context exists

  size_t num_bytes() const { return num_bytes_; }
  size_t num_answers() const { return answers_.size(); }

 private:
  friend class KeptAnswer;
  bool is_full() const { return num_bytes_ > limits_.max_bytes; }
  void grow(size_t num_bytes);
  void shrink();
  void drop(const std::shared_ptr<KeptAnswer>& answer);

  Limits limits_;
  size_t num_bytes_{0};
  std::list<std::shared_ptr<KeptAnswer>> answers_;  // oldest first
  std::map<OwnedId, std::list<std::shared_ptr<KeptAnswer>>::iterator> by_id_;
};

}  // namespace nibble::server
