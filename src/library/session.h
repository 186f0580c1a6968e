// A conversation with a loaded model, and the answer that is under way.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/program/settings.h"
#include "harmony/chat.h"
#include "library/event_router.h"
#include "library/loaded_model.h"
#include "library/nibble.h"
#include "turn/answer_reader.h"

namespace nibble::library {

class Session {  // used by one thread at a time, except for cancel()
 public:
  Session(std::shared_ptr<LoadedModel> model, Settings settings);
  ~Session();

  void set(std::string_view name, const char* value);  // a null value restores the default
  void set_form(std::optional<grammar::Source> source);
  void set_tools(std::string_view json);
  void add(std::string_view role, std::string_view text);
  void add_json(std::string_view json);
  void clear();

  size_t count_tokens() const;
  void answer();
  void send(std::string_view text);
  void send_tokens(std::span<const TokenId> tokens);

  // Fills the first event->struct_bytes bytes of the event. Returns false if no event arrives in time.
  bool next_event(int timeout_ms, nibble_event* event);
  void cancel();  // thread-safe

 private:
  struct Piece {  // storage for what an event points to
    nibble_event event{};
    std::string text, call_name, call_id;
    std::vector<TokenId> tokens;
  };
  struct Running {
    RequestId request;
    std::shared_ptr<Inbox> inbox;
    AnswerReader reader;
    bool is_chat;
    bool has_stopped{false};  // true: the answer ended at a stop string
  };

  void check_idle() const;
  AnswerForm form() const;
  std::vector<TokenId> prompt() const;
  void start(GenerationRequest request, bool is_chat);
  void read(Event event);
  Piece& add_piece(nibble_event_type type, std::string_view text);
  void finish(FinishedEvent event);
  void add_call(const harmony::ParsedMessage& call, harmony::ChatMessage& said);
  void keep(const Answer& answer);
  void end();

  std::shared_ptr<LoadedModel> model_;
  Settings settings_;
  // The grammar given to set_form(), which replaces that of the settings; inner nullopt: no grammar. Outer
  // nullopt: the grammar of the settings applies.
  std::optional<std::optional<grammar::Source>> source_;
  std::vector<harmony::ChatMessage> messages_;
  std::vector<harmony::Tool> tools_;
  int num_calls_{0};  // numbers the ids of calls

  std::optional<Running> running_;
  bool drops_question_{false};   // send() added the last message; it is removed if the answer is empty
  std::deque<Piece> pieces_;     // events not yet given to the caller
  std::vector<TokenId> tokens_;  // sampled since the last piece
  Piece given_;                  // the caller's last event points into this piece
  std::mutex cancel_mutex_;      // guards the next member
  std::optional<RequestId> cancellable_;
};

}  // namespace nibble::library

struct nibble_session {
  nibble::library::Session session;
};
