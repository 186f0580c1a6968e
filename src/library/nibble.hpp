// The C++ API of libnibble: classes that own the objects of the C API (nibble.h) and turn its errors into
// exceptions.
//
//   nibble::Model model("openai/gpt-oss-20b", {{"context", "8192"}});
//   nibble::Session session(model, {{"temperature", "0"}});
//   session.send("What is 17 + 25?");
//   while (auto event = session.next_event())
//     if (event->type == NIBBLE_EVENT_TEXT) std::cout << event->text;
//
// Header only, C++17. The rules of nibble.h on threads apply. An object that was moved from may only be
// destroyed or assigned to.
#ifndef NIBBLE_HPP
#define NIBBLE_HPP

#include <nibble.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble {
inline namespace api0 {  // keeps these names apart from the C++ names inside libnibble

class Error : public std::runtime_error {
 public:
  Error(nibble_status status, const char* message) : std::runtime_error(message), status_(status) {}
  nibble_status status() const noexcept { return status_; }

 private:
  nibble_status status_;
};

inline void check(nibble_status status) {  // throws Error unless the status is NIBBLE_OK
  if (status != NIBBLE_OK) throw Error(status, nibble_last_error());
}

template <auto free>
struct Free {
  template <typename Object>
  void operator()(Object* object) const noexcept {
    free(object);
  }
};

class Options {
 public:
  using Pair = std::pair<const char*, std::string>;

  Options() { check(create()); }
  Options(std::initializer_list<Pair> pairs) : Options() {
    for (const Pair& pair : pairs) set(pair.first, pair.second);
  }

  Options& set(const char* name, const std::string& value) {
    check(nibble_options_set(get(), name, value.c_str()));
    return *this;
  }
  nibble_options* get() const noexcept { return options_.get(); }

 private:
  nibble_status create() {
    nibble_options* made = nullptr;
    const nibble_status status = nibble_options_create(&made);
    options_.reset(made);
    return status;
  }
  std::unique_ptr<nibble_options, Free<nibble_options_free>> options_;
};

class Model {
 public:
  // The callback is called while the model loads, and must not throw.
  using Progress = std::function<void(const char* task, uint64_t done, uint64_t total)>;

  explicit Model(const std::string& name, const Options& options = {}, const Progress& progress = {}) {
    void* const data = const_cast<Progress*>(&progress);
    check(nibble_options_set_progress(options.get(), progress ? &report : nullptr, data));
    nibble_model* made = nullptr;
    const nibble_status status = nibble_model_open(name.c_str(), options.get(), &made);
    // This call can't fail, so nibble_last_error() keeps the message that belongs to `status`.
    nibble_options_set_progress(options.get(), nullptr, nullptr);
    check(status);
    model_.reset(made);
  }

  int32_t context() const noexcept { return nibble_model_context(get()); }

  std::vector<int32_t> encode(std::string_view text) const { return encode(text, nibble_model_encode); }
  // "<|start|>" and the like become control tokens. Not for text from users.
  std::vector<int32_t> encode_controls(std::string_view text) const {
    return encode(text, nibble_model_encode_controls);
  }
  std::string decode(const std::vector<int32_t>& tokens) const {
    size_t bytes = 0;
    check(nibble_model_decode(get(), tokens.data(), tokens.size(), nullptr, &bytes));
    std::string text(bytes, '\0');
    check(nibble_model_decode(get(), tokens.data(), tokens.size(), text.data(), &bytes));
    return text;
  }
  nibble_model* get() const noexcept { return model_.get(); }

 private:
  std::vector<int32_t> encode(std::string_view text, decltype(&nibble_model_encode) function) const {
    size_t count = 0;
    check(function(get(), text.data(), text.size(), nullptr, &count));
    std::vector<int32_t> tokens(count);
    check(function(get(), text.data(), text.size(), tokens.data(), &count));
    return tokens;
  }
  static void report(void* progress, const char* task, uint64_t done, uint64_t total) {
    (*static_cast<const Progress*>(progress))(task, done, total);
  }
  std::unique_ptr<nibble_model, Free<nibble_model_close>> model_;
};

struct Event {  // a copy of nibble_event: stays valid
  nibble_event_type type{};
  nibble_finish finish{};
  std::string text, call_name, call_id;
  std::vector<int32_t> tokens;
  int32_t num_prompt_tokens{0}, num_cached_tokens{0}, num_output_tokens{0};
  double prefill_seconds{0}, decode_seconds{0};
};

class Session {
 public:
  explicit Session(const Model& model, const Options& options = {}) {
    nibble_session* made = nullptr;
    check(nibble_session_open(model.get(), options.get(), &made));
    session_.reset(made);
  }

  void set(const char* name, const std::string& value) {
    check(nibble_session_set(get(), name, value.c_str()));
  }
  void reset(const char* name) { check(nibble_session_set(get(), name, nullptr)); }
  void set_json_schema(const std::string& text) {
    check(nibble_session_set_json_schema(get(), text.c_str()));
  }
  void set_grammar(const std::string& text) { check(nibble_session_set_grammar(get(), text.c_str())); }
  void set_no_form() { check(nibble_session_set_grammar(get(), nullptr)); }
  void set_tools(const std::string& json) { check(nibble_session_set_tools(get(), json.c_str())); }

  void add(const char* role, const std::string& text) {
    check(nibble_session_add(get(), role, text.c_str()));
  }
  void add_json(const std::string& message) { check(nibble_session_add_json(get(), message.c_str())); }
  void clear() { check(nibble_session_clear(get())); }
  size_t count_tokens() const {
    size_t count = 0;
    check(nibble_session_count_tokens(get(), &count));
    return count;
  }

  void send(const std::string& text) {
    check(nibble_session_send(get(), text.c_str()));
    is_running_ = true;
  }
  void send_tokens(const std::vector<int32_t>& tokens) {
    check(nibble_session_send_tokens(get(), tokens.data(), tokens.size()));
    is_running_ = true;
  }
  void answer() {
    check(nibble_session_answer(get()));
    is_running_ = true;
  }

  // Returns the answer's next event; nullopt after the last event. With a timeout, nullopt can also mean that
  // no event arrived in time; is_running() is then still true.
  std::optional<Event> next_event(std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
    if (!is_running_) return std::nullopt;
    nibble_event event{};
    event.struct_bytes = sizeof event;
    const nibble_status status =
        nibble_session_next_event(get(), timeout ? static_cast<int32_t>(timeout->count()) : -1, &event);
    if (status == NIBBLE_TIMEOUT) return std::nullopt;
    is_running_ = status == NIBBLE_OK && event.type != NIBBLE_EVENT_FINISHED;
    check(status);
    return Event{event.type,
                 event.finish,
                 {event.text, event.text_bytes},
                 event.call_name,
                 event.call_id,
                 {event.tokens, event.tokens + event.num_tokens},
                 event.num_prompt_tokens,
                 event.num_cached_tokens,
                 event.num_output_tokens,
                 event.prefill_seconds,
                 event.decode_seconds};
  }
  bool is_running() const noexcept { return is_running_; }
  void cancel() noexcept { nibble_session_cancel(get()); }  // can be called from any thread

  nibble_session* get() const noexcept { return session_.get(); }

 private:
  std::unique_ptr<nibble_session, Free<nibble_session_close>> session_;
  bool is_running_{false};
};

}  // namespace api0
}  // namespace nibble

#endif  // NIBBLE_HPP
