// The functions nibble_session_*() of the C API.
#include <string>

#include "core/errors/error.h"
#include "grammar/languages/source.h"
#include "library/session.h"
#include "library/status.h"

using namespace nibble::library;

namespace {

// Calls action(session.session).
template <typename Action>
nibble_status on_session(nibble_session* session, const Action& action) {
  return guarded([&] {
    need(session, "session");
    action(session->session);
  });
}

nibble_status set_form(nibble_session* session, nibble::grammar::Language language, const char* text,
                       const char* parameter) {
  return on_session(session, [&](Session& own) {
    if (!text) return own.set_form(std::nullopt);
    own.set_form(nibble::grammar::Source{language, std::string(need_text(text, parameter))});
  });
}

}  // namespace

nibble_status nibble_session_open(nibble_model* model, const nibble_options* options,
                                  nibble_session** session) {
  return guarded([&] {
    need(model, "model");
    need(session, "session");
    nibble::Settings settings = model->loaded->settings();
    apply_to_session(options, settings);
    *session = new nibble_session{{model->loaded, std::move(settings)}};
  });
}

void nibble_session_close(nibble_session* session) { delete session; }

nibble_status nibble_session_set(nibble_session* session, const char* name, const char* value) {
  return on_session(session, [&](Session& own) { own.set(need_text(name, "name"), value); });
}

nibble_status nibble_session_set_json_schema(nibble_session* session, const char* schema) {
  return set_form(session, nibble::grammar::Language::kJsonSchema, schema, "schema");
}

nibble_status nibble_session_set_grammar(nibble_session* session, const char* grammar) {
  return set_form(session, nibble::grammar::Language::kGbnf, grammar, "grammar");
}

nibble_status nibble_session_set_tools(nibble_session* session, const char* tools) {
  return on_session(session, [&](Session& own) { own.set_tools(need_text(tools, "tools")); });
}

nibble_status nibble_session_add(nibble_session* session, const char* role, const char* text) {
  return on_session(session,
                    [&](Session& own) { own.add(need_text(role, "role"), need_text(text, "text")); });
}

nibble_status nibble_session_add_json(nibble_session* session, const char* message) {
  return on_session(session, [&](Session& own) { own.add_json(need_text(message, "message")); });
}

nibble_status nibble_session_clear(nibble_session* session) {
  return on_session(session, [](Session& own) { own.clear(); });
}

nibble_status nibble_session_count_tokens(nibble_session* session, size_t* num_tokens) {
  return on_session(session, [&](Session& own) {
    need(num_tokens, "num_tokens");
    *num_tokens = own.count_tokens();
  });
}

nibble_status nibble_session_answer(nibble_session* session) {
  return on_session(session, [](Session& own) { own.answer(); });
}

nibble_status nibble_session_send(nibble_session* session, const char* text) {
  return on_session(session, [&](Session& own) { own.send(need_text(text, "text")); });
}

nibble_status nibble_session_send_tokens(nibble_session* session, const int32_t* tokens, size_t num_tokens) {
  return on_session(session, [&](Session& own) {
    if (num_tokens > 0) need(tokens, "tokens");
    own.send_tokens({tokens, num_tokens});
  });
}

nibble_status nibble_session_next_event(nibble_session* session, int32_t timeout_ms, nibble_event* event) {
  bool has_arrived = true;
  const nibble_status status = on_session(session, [&](Session& own) {
    need(event, "event");
    if (event->struct_bytes < sizeof(event->struct_bytes) + sizeof(event->type))
      throw nibble::InputError("event->struct_bytes is {}: set it to sizeof(nibble_event)",
                               event->struct_bytes);
    has_arrived = own.next_event(timeout_ms, event);
  });
  return has_arrived ? status : NIBBLE_TIMEOUT;
}

void nibble_session_cancel(nibble_session* session) {
  if (session) on_session(session, [](Session& own) { own.cancel(); });
}
