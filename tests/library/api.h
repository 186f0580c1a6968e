// Shared by the tests of the C API: a loaded miniature model, and a whole answer taken from its events.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "library/nibble.h"
#include "tests/folders.h"

namespace nibble::test {

struct CloseModel {
  void operator()(nibble_model* model) const { nibble_model_close(model); }
};
struct CloseSession {
  void operator()(nibble_session* session) const { nibble_session_close(session); }
};
struct FreeOptions {
  void operator()(nibble_options* options) const { nibble_options_free(options); }
};
using ModelPointer = std::unique_ptr<nibble_model, CloseModel>;
using SessionPointer = std::unique_ptr<nibble_session, CloseSession>;
using OptionsPointer = std::unique_ptr<nibble_options, FreeOptions>;
using Pairs = std::vector<std::pair<const char*, const char*>>;

inline OptionsPointer options_with(const Pairs& pairs) {
  nibble_options* options = nullptr;
  EXPECT_EQ(nibble_options_create(&options), NIBBLE_OK);
  for (const auto& [name, value] : pairs)
    EXPECT_EQ(nibble_options_set(options, name, value), NIBBLE_OK) << nibble_last_error();
  return OptionsPointer(options);
}

// Loads the miniature model. A small context and few sequences keep the KV cache small.
inline ModelPointer load_tiny(Pairs pairs = {}) {
  pairs.insert(pairs.end(), {{"context", "1024"}, {"max-sequences", "4"}, {"threads", "2"}});
  nibble_model* model = nullptr;
  EXPECT_EQ(nibble_model_open(source_path("models/tiny-gpt-oss").c_str(), options_with(pairs).get(), &model),
            NIBBLE_OK)
      << nibble_last_error();
  return ModelPointer(model);
}

inline SessionPointer open_session(const ModelPointer& model, const Pairs& pairs = {{"temperature", "0"}}) {
  nibble_session* session = nullptr;
  EXPECT_EQ(nibble_session_open(model.get(), options_with(pairs).get(), &session), NIBBLE_OK)
      << nibble_last_error();
  return SessionPointer(session);
}

struct WholeAnswer {
  nibble_status status{NIBBLE_OK};  // status of the last call of nibble_session_next_event()
  std::string text, reasoning, call_name, call_id, arguments;
  std::vector<int32_t> tokens;
  nibble_event finished{};
};

inline WholeAnswer take_answer(const SessionPointer& session) {
  WholeAnswer answer;
  nibble_event event{};
  event.struct_bytes = sizeof event;
  while (event.type != NIBBLE_EVENT_FINISHED) {
    answer.status = nibble_session_next_event(session.get(), 60'000, &event);
    if (answer.status != NIBBLE_OK) return answer;
    EXPECT_EQ(std::string(event.text).size(), event.text_bytes);
    answer.tokens.insert(answer.tokens.end(), event.tokens, event.tokens + event.num_tokens);
    if (event.type == NIBBLE_EVENT_TEXT) answer.text += event.text;
    if (event.type == NIBBLE_EVENT_REASONING) answer.reasoning += event.text;
    if (event.type != NIBBLE_EVENT_CALL) continue;
    answer.call_name = event.call_name;
    answer.call_id = event.call_id;
    answer.arguments = event.text;
  }
  answer.finished = event;
  return answer;
}

inline WholeAnswer ask(const SessionPointer& session, const char* question) {
  EXPECT_EQ(nibble_session_send(session.get(), question), NIBBLE_OK) << nibble_last_error();
  return take_answer(session);
}

}  // namespace nibble::test
