#include "cli/start_line/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/start_line/values.h"
#include "core/program/settings.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Texts = std::vector<std::string>;

class StartLineTest : public testing::Test {
 protected:
  StartLineTest() {
    define_run(*program_.add_subcommand("run"), settings_);
    define_serve(*program_.add_subcommand("serve"), settings_);
    define_tokenize(*program_.add_subcommand("tokenize"), settings_);
  }
  StartLine read(const Texts& arguments) const { return translate(program_, arguments); }
  // Returns the arguments, joined by spaces. No argument of `line` contains a space.
  std::string arguments(const std::string& line) const {
    std::string text;
    for (const std::string& argument : read(split(line, ' ')).arguments)
      text += (text.empty() ? "" : " ") + argument;
    return text;
  }
  Texts notes(const std::string& line) const { return read(split(line, ' ')).notes; }
  std::string refusal(const std::string& line) const {
    return error_of([&] { read(split(line, ' ')); });
  }

 private:
  Settings settings_;
  CLI::App program_{"", "nibble"};
};

TEST_F(StartLineTest, AFlagWithAnotherNameHereIsReplacedAndTheLogSaysSo) {
  EXPECT_EQ(arguments("serve tiny --kv-cache-dtype fp8_e4m3 --mem-fraction-static=0.8"),
            "serve tiny --kv-dtype fp8 --gpu-memory-utilization 0.8");
  EXPECT_THAT(notes("serve tiny --kv-cache-dtype fp8_e4m3 --mem-fraction-static=0.8"),
              ElementsAre("--kv-cache-dtype fp8_e4m3 is read as --kv-dtype fp8",
                          "--mem-fraction-static=0.8 is read as --gpu-memory-utilization 0.8 (the workspace "
                          "is part of this share)"));
}

TEST_F(StartLineTest, AFlagThatNeedsNothingIsDroppedAndTheLogSaysWhy) {
  const StartLine line = read({"serve", "--trust-remote-code", "--dtype", "bfloat16", "tiny"});
  EXPECT_THAT(line.arguments, ElementsAre("serve", "tiny"));
  EXPECT_THAT(line.notes,
              ElementsAre("--trust-remote-code needs nothing: no code of a checkpoint is run",
                          StartsWith("--dtype bfloat16 needs nothing: weights keep the formats")));
}

TEST_F(StartLineTest, AllRefusedFlagsAreNamedWithTheirReasons) {
  EXPECT_EQ(refusal("serve tiny --load-format dummy --jinja --mlock"),
            "--load-format dummy is not supported: for random weights, the model is synthetic:gpt-oss-20b or "
            "synthetic:gpt-oss-120b. --mlock is not supported: memory is not locked");
}

TEST_F(StartLineTest, TheValueDecides) {
  EXPECT_THAT(refusal("serve tiny --dtype float16"), HasSubstr("write bfloat16 or leave it out"));
  EXPECT_THAT(refusal("serve tiny --quantization awq"), HasSubstr("--mxfp4-layers"));
  EXPECT_EQ(arguments("serve tiny --quantization mxfp4"), "serve tiny");
  EXPECT_EQ(arguments("serve tiny --ctx-size 0"), "serve tiny --context 131072");
  EXPECT_EQ(arguments("serve tiny --ctx-size 4096"), "serve tiny --context 4096");
  EXPECT_EQ(arguments("serve tiny --log-level warning --log-level info"),
            "serve tiny --log-level warn --log-level info");
}

TEST_F(StartLineTest, AnUnknownValueIsAnsweredWithThoseThatAreAccepted) {
  EXPECT_EQ(refusal("serve tiny --dtype int3"), "--dtype int3 is not supported: expected auto, bfloat16");
  EXPECT_EQ(refusal("serve tiny --dtype"), "--dtype is not supported: it needs a value");
  EXPECT_EQ(refusal("serve tiny --jinja=on"), "--jinja=on is not supported: the flag takes no value");
}

TEST_F(StartLineTest, NibblesOwnFlagsAndUnknownOnesAreLeftToTheParser) {
  for (const char* line : {"serve tiny --max-num-seqs 4 --port=0 -t 2 --no-page", "serve --nonsense=1 tiny",
                           "run tiny -p --dtype", "run tiny --temperature -1", "serve tiny -- --jinja",
                           "tokenize tiny --dtype float16", "run tiny -p x --max-running-requests 4",
                           "--version", "nonsense --jinja"}) {
    EXPECT_EQ(arguments(line), line);
    EXPECT_THAT(notes(line), IsEmpty()) << line;
  }
}

TEST_F(StartLineTest, UnderscoresAndShortNamesAreSpellingsThatNeedNoNote) {
  EXPECT_EQ(arguments("serve tiny --max_model_len 4096 -tp 2"),
            "serve tiny --max-model-len 4096 --tensor-parallel-size 2");
  EXPECT_THAT(notes("serve tiny --max_model_len 4096 -tp 2"), IsEmpty());
}

TEST_F(StartLineTest, ANumberMayHaveALetter) {
  EXPECT_EQ(arguments("serve tiny --max-model-len 32k"), "serve tiny --max-model-len 32000");
  EXPECT_THAT(notes("serve tiny --max-model-len 32k"),
              ElementsAre("--max-model-len 32k is read as --max-model-len 32000"));
}

TEST_F(StartLineTest, AListBecomesSeveralFlags) {
  EXPECT_EQ(arguments("serve tiny --served-model-name a b --api-key k"),
            "serve tiny --served-model-name a --served-model-name b --api-key k");
  EXPECT_EQ(arguments("serve --served-model-name a tiny"), "serve --served-model-name a tiny");
  EXPECT_EQ(read({"serve", "tiny", "--allowed-origins", R"(["https://a", "https://b"])"}).arguments,
            (Texts{"serve", "tiny", "--cors-origin", "https://a", "--cors-origin", "https://b"}));
  EXPECT_EQ(arguments("serve --cuda-graph-bs 1 2 4 --model tiny"), "serve --model tiny");
}

TEST_F(StartLineTest, AValueThatMayBeMissingIsTakenOnlyIfItIsOne) {
  EXPECT_EQ(arguments("serve -fa on tiny -fa"), "serve tiny");
  EXPECT_EQ(arguments("serve -fa tiny"), "serve tiny");
}

TEST_F(StartLineTest, DottedMembersOfTheSpeculativeConfigAreCollected) {
  const std::string line =
      "serve tiny --speculative_config.method eagle3 --speculative-config.model a/head "
      "--speculative-config.num_speculative_tokens=3";
  EXPECT_EQ(
      arguments(line),
      R"(serve tiny --speculative-config {"method":"eagle3","model":"a/head","num_speculative_tokens":3})");
  EXPECT_THAT(notes(line), ElementsAre(AllOf(HasSubstr("--speculative-config.num_speculative_tokens"),
                                             HasSubstr(R"('{"method":"eagle3")"))));
  EXPECT_THAT(refusal("serve tiny --speculative-config {} --speculative-config.method ngram"),
              HasSubstr("--speculative-config is given too"));
  EXPECT_EQ(arguments("serve tiny -O.mode=3 -cc.pass_config.fuse=True -O3"), "serve tiny");
}

TEST_F(StartLineTest, SglangsDraftFlagsBecomeOneConfig) {
  const std::string head = "serve tiny --speculative-algorithm EAGLE3 --speculative-draft-model-path a/head ";
  EXPECT_EQ(arguments(head + "--speculative-num-steps 3 --speculative-eagle-topk 1 "
                             "--speculative-num-draft-tokens 4"),
            "serve tiny --speculative-config "
            R"({"method":"eagle3","model":"a/head","num_speculative_tokens":3,"topk":1})");
  EXPECT_EQ(arguments(head + "--speculative-num-steps 5 --speculative-eagle-topk 4 "
                             "--speculative-num-draft-tokens 8"),
            "serve tiny --speculative-config "
            R"({"method":"eagle3","model":"a/head","num_speculative_tokens":7,"topk":4})");
  EXPECT_EQ(arguments("serve tiny --speculative-algorithm NGRAM --speculative-num-draft-tokens 8 "
                      "--speculative-eagle-topk 1"),
            R"(serve tiny --speculative-config {"method":"ngram","num_speculative_tokens":7})");
  EXPECT_THAT(refusal("serve tiny --speculative-algorithm NEXTN"), HasSubstr("--speculate"));
}

TEST_F(StartLineTest, JsonIsReadAsJson) {
  const Texts high{"serve", "tiny", "--chat-template-kwargs", R"({ "reasoning_effort": "high" })"};
  EXPECT_THAT(read(high).arguments, ElementsAre("serve", "tiny", "--reasoning", "high"));
  const Texts more{"serve", "tiny", "--chat-template-kwargs", R"({"reasoning_effort":"high","a":1})"};
  EXPECT_THAT(error_of([&] { read(more); }), HasSubstr("prompts are rendered in harmony"));
  const Texts eager{"serve", "tiny", "--compilation-config", R"({"level": 3, "cudagraph_mode": "NONE"})"};
  EXPECT_THAT(read(eager).arguments, ElementsAre("serve", "tiny", "--graphs", "off"));
}

TEST_F(StartLineTest, ExpertsAreParallelOverAllGpusOrNotAtAll) {
  EXPECT_EQ(arguments("serve tiny --tp_size 8 --ep_size 8"),
            "serve tiny --tensor-parallel-size 8 --expert-parallel");
  EXPECT_EQ(arguments("serve tiny --tp 4 --ep_size 1"), "serve tiny --tp 4");
  EXPECT_EQ(arguments("serve tiny --tp=4 --ep_size 4"), "serve tiny --tp=4 --expert-parallel");
  EXPECT_THAT(refusal("serve tiny --ep 4 --tensor-parallel-size=8"), HasSubstr("all 8 GPUs"));
  EXPECT_THAT(refusal("serve tiny --ep 4"), HasSubstr("all 1 GPUs"));
}

TEST_F(StartLineTest, AFlagIsReplacedByTheOneThatTheCommandHas) {
  EXPECT_EQ(arguments("run tiny --n-predict 5"), "run tiny --max-tokens 5");
  EXPECT_EQ(arguments("serve tiny --n-predict 5"), "serve tiny --max-output-tokens 5");
}

TEST(ForeignVariables, AreNamedWithWhatReplacesThem) {
  const char* const environment[]{"HOME=/root", "VLLM_API_KEY=secret", "VLLM_OTHER=1", nullptr};
  const Texts hints = hints_of_foreign_variables(environment);
  EXPECT_THAT(hints, ElementsAre("VLLM_API_KEY is read by vLLM, not by nibble; use --api-key-file"));
  EXPECT_THAT(hints.front(), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace nibble::cli
