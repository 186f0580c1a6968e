#include "cli/chat/local_answerer.h"

#include "cli/terminal/prompt_spinner.h"
#include "cli/terminal/speed.h"
#include "core/errors/error.h"
#include "harmony/render.h"
#include "turn/new_request.h"

namespace nibble::cli {

ChatAnswer LocalAnswerer::answer(const harmony::Chat& chat, const Settings& settings,
                                 const Listener& listener) {
  const std::vector<TokenId> prompt =
      harmony::render(harmony::to_conversation(chat), model_.tokenizer, {}).tokens;
  if (prompt.size() >= static_cast<size_t>(model_.context))
    throw InputError("the conversation has {} tokens and the context is {}: /reset starts a new conversation",
                     prompt.size(), model_.context);
  GenerationRequest request = make_request(prompt, settings, model_.config, model_.tokenizer, model_.context);
  request.constraint = format_.constraint(settings, /*is_chat=*/true);
  PromptSpinner spinner(model_.engine, static_cast<int>(prompt.size()), stdout);
  Listener heard = listener;
  heard.on_wait = [&] { spinner.draw(); };
  heard.on_text = [&](harmony::AnswerPart part, std::string_view text) {
    spinner.hide();
    listener.on_text(part, text);
  };
  const Answer answer =
      stream_harmony(model_.engine, model_.tokenizer, std::move(request), settings.stop, heard);
  const std::string cut = describe_cut(answer.finished);
  const Speed speed = speed_of(model_.config, model_.formats, answer.finished);
  return {answer.text, answer.reasoning, answer.is_abandoned ? cut : describe(answer.finished, speed), cut};
}

}  // namespace nibble::cli
