// An engine on the toy model of toy_backend.h, requests to it, and the expected answers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "grammar/matching/constraint.h"
#include "tests/engine/answers.h"
#include "tests/engine/toy_backend.h"
#include "tests/engine/toy_drafter.h"
#include "tests/folders.h"
#include "text/utf8_stream.h"

namespace nibble {

using Tokens = std::vector<TokenId>;

inline const Tokenizer& tokenizer() {
  static const Tokenizer tiny = Tokenizer::open(test::source_path("models/tiny-gpt-oss"));
  return tiny;
}

// How the engine runs. Every test of these suites runs with 0 and 1 steps ahead, most also with drafts. None
// of this changes an answer.
struct HowToRun {
  int steps_ahead{0};
  int max_drafts{0};    // 0: no drafts
  bool by_cost{false};  // drafts only where they save time, so their number depends on the machine
  int topk{1};          // above 1: trees of drafts
  bool by_head{false};  // the backend makes the drafts
  friend void PrintTo(const HowToRun& how, std::ostream* out) {
    *out << how.steps_ahead << " steps ahead, " << how.max_drafts << " drafts, " << how.topk << " for a place"
         << (how.by_head ? ", by the backend" : "");
  }
};
inline constexpr HowToRun kWithoutDrafts[] = {{0, 0}, {1, 0}};
inline constexpr HowToRun kAllWays[] = {{0, 0},
                                        {1, 0},
                                        {0, 7},
                                        {1, 3},
                                        {1, 6, true},
                                        {0, 12, false, 3},
                                        {1, 9, true, 2},
                                        {0, 4, false, 1, true},
                                        {1, 4, false, 1, true}};
inline int steps_ahead{0}, max_drafts{0}, topk{1};
inline bool by_cost{false}, by_head{false};
class EngineAnswers : public testing::TestWithParam<HowToRun> {
 protected:
  void SetUp() override {
    steps_ahead = GetParam().steps_ahead;
    max_drafts = GetParam().max_drafts;
    by_cost = GetParam().by_cost;
    topk = GetParam().topk;
    by_head = GetParam().by_head;
  }
};

inline speculative::SpeculationOptions drafts(ToyModel model) {
  return by_head ? drafts_of_head(max_drafts) : drafts_of(likeliest(std::move(model)), max_drafts, topk);
}

inline EngineOptions options() {
  EngineOptions options{.num_pages = 300, .max_batch_tokens = 64, .max_sequences = 8};
  if (max_drafts > 0) options.speculation = drafts(toy_logits);
  options.speculation.by_cost = by_cost;
  return options;
}

// While this object exists, no step of its model ends: requests submitted meanwhile are all live at once,
// even on a slow machine.
class HeldSteps {
 public:
  explicit HeldSteps(std::atomic<bool>& are_held) : are_held_(are_held) { are_held_ = true; }
  ~HeldSteps() {
    are_held_ = false;
    are_held_.notify_all();
  }
  HeldSteps(const HeldSteps&) = delete;
  HeldSteps& operator=(const HeldSteps&) = delete;

 private:
  std::atomic<bool>& are_held_;
};
// Returns a model that waits while `are_held` is true, then calls `model`.
inline ToyModel held(ToyModel model, std::atomic<bool>& are_held) {
  return [model = std::move(model), &are_held](std::span<const TokenId> context) {
    are_held.wait(true);
    return model(context);
  };
}

using Submitted = std::vector<std::pair<RequestId, GenerationRequest>>;

// An engine on a toy model, and the answers of the engine.
struct Toy {
  explicit Toy(ToyModel model = toy_logits, const EngineOptions& given = options())
      : backend(given, held(std::move(model), are_held), steps_ahead),
        engine(backend, tokenizer(), given),
        answers(engine) {}
  const Answer& ask(GenerationRequest request) { return answers.wait_for(engine.submit(std::move(request))); }
  // Submits requests so that all are live at once.
  Submitted submit_together(const std::vector<GenerationRequest>& requests) {
    const HeldSteps steps(are_held);
    Submitted submitted;
    for (const GenerationRequest& request : requests) submitted.emplace_back(engine.submit(request), request);
    return submitted;
  }

  std::atomic<bool> are_held{false};
  ToyBackend backend;
  Engine engine;
  Answers answers;
};

// A model that blocks until the test lets it pass, so that the test decides what happens during a step.
struct Gate {
  ToyModel model() {
    return [this](std::span<const TokenId> context) {
      arrived.release();
      passed.acquire();
      return toy_logits(context);
    };
  }
  std::counting_semaphore<> arrived{0}, passed{0};
};

// Returns the token that consists of one byte.
inline TokenId token_of(char byte) {
  for (TokenId id = 0; id < 256; ++id)
    if (tokenizer().bytes(id) == std::string_view(&byte, 1)) return id;
  throw std::logic_error("the vocabulary lacks a byte");
}
inline Tokens tokens_of(std::string_view text) {
  Tokens tokens;
  for (const char byte : text) tokens.push_back(token_of(byte));
  return tokens;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline GenerationRequest request(const Tokens& prompt, int max_tokens) {
  GenerationRequest asked;
  asked.prompt = prompt;
  asked.stop.max_tokens = max_tokens;
  return asked;
}
// Runs a request on a toy model whose answer is the tokens of `script`.
inline Answer answer_with(const Tokens& script, const StopParams& stop) {
  EngineOptions given = options();
  if (max_drafts > 0) given.speculation = drafts(scripted(1, script));
  Toy toy(scripted(1, script), given);
  GenerationRequest asked = request({0}, 0);
  asked.stop = stop;
  return toy.ask(asked);
}

// Bans tokens, as generation_request.h defines, by their logits.
inline void ban(const GenerationRequest& asked, const Tokens& output, std::vector<float>& logits) {
  constexpr float kNever{-std::numeric_limits<float>::infinity()};
  if (asked.bans.allowed) {
    std::vector<float> allowed(logits.size(), kNever);
    for (const TokenId token : *asked.bans.allowed)
      allowed[static_cast<size_t>(token)] = logits[static_cast<size_t>(token)];
    logits = allowed;
  }
  if (std::ssize(output) < asked.stop.min_tokens)
    for (const TokenId token : asked.stop.tokens) logits[static_cast<size_t>(token)] = kNever;
  for (const Tokens& run : asked.bans.runs)
    if (run.size() <= output.size() + 1 && std::equal(run.rbegin() + 1, run.rend(), output.rbegin()))
      logits[static_cast<size_t>(run.back())] = kNever;
}

// Applies the mask of a constraint to the logits.
inline void allow(grammar::Constraint& constraint, std::vector<float>& logits) {
  std::vector<uint32_t> mask(mask_words(kToyVocab));
  constraint.fill_mask(mask);
  for (size_t token = 0; token < logits.size(); ++token)
    if (!has_token(mask, static_cast<TokenId>(token)))
      logits[token] = -std::numeric_limits<float>::infinity();
}

// Returns the expected answer: calls the model on the plain context, token by token, without engine, pages or
// batches.
inline Tokens run_alone(const GenerationRequest& asked) {
  Tokens context = asked.prompt, output, forced;
  const auto constraint = asked.constraint ? asked.constraint->fork() : nullptr;
  while (std::ssize(output) < asked.stop.max_tokens) {
    TokenId next{};
    if (!forced.empty()) {
      next = forced.front();
      forced.erase(forced.begin());
    } else {
      std::vector<float> logits = toy_logits(context);
      ban(asked, output, logits);
      if (constraint) allow(*constraint, logits);
      next = sample(logits, {.sample = &asked.sample, .prompt = asked.prompt, .output = output},
                    static_cast<int>(context.size()))
                 .token;
    }
    context.push_back(next);
    output.push_back(next);
    if (std::count(asked.stop.tokens.begin(), asked.stop.tokens.end(), next)) break;
    if (!constraint) continue;
    EXPECT_TRUE(constraint->accept(next));
    if (forced.empty()) forced = constraint->forced_tokens();
  }
  return output;
}
// Returns the log-probabilities of the prompt's tokens from the second on, computed from the model's logits.
inline std::vector<float> prompt_logprobs(const Tokens& prompt) {
  std::vector<float> expected;
  for (size_t n = 1; n < prompt.size(); ++n) {
    std::vector<float> logits = toy_logits(std::span(prompt).first(n));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    expected.push_back(static_cast<float>(double{logits[static_cast<size_t>(prompt[n])]} - std::log(sum)));
  }
  return expected;
}

inline std::string text_of(const Tokens& tokens) {
  Utf8Stream stream;
  std::string text = stream.push(tokenizer().decode(tokens));
  return text + stream.finish();
}

inline GenerationRequest random_request(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  GenerationRequest asked;
  asked.prompt.resize(static_cast<size_t>(1 + (below(3) == 0 ? below(400) : below(40))));
  for (TokenId& token : asked.prompt) token = below(kToyVocab);
  asked.stop.max_tokens = 1 + below(60);
  if (below(2) == 0)
    asked.sample = {.temperature = 0.5f + 0.1f * static_cast<float>(below(10)),
                    .top_k = below(2) * 20,
                    .top_p = below(2) == 0 ? 1 : 0.9f,
                    .repetition_penalty = below(2) == 0 ? 1 : 1.2f,
                    .presence_penalty = below(2) == 0 ? 0 : 0.5f,
                    .seed = random()};
  const auto letter = [&] { return token_of(static_cast<char>('a' + below(6))); };
  if (below(4) == 0) {
    asked.stop.tokens = {letter()};
    asked.stop.keeps_stop = true;
    asked.stop.min_tokens = below(std::min(20, asked.stop.max_tokens));
  }
  if (below(4) == 0) asked.bans.allowed = std::make_shared<Tokens>(tokens_of("abcdefghijkl"));
  for (int n = below(2) * below(5); n > 0; --n) {
    Tokens& run = asked.bans.runs.emplace_back();
    for (int length = 1 + below(3); length > 0; --length) run.push_back(letter());
  }
  return asked;
}

}  // namespace nibble
