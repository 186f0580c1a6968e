#include "setup/model/installed_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "setup/model/model_source.h"
#include "setup/model/model_stores.h"
#include "tests/error_of.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class InstalledModelsTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"}) unsetenv(name);
    setenv("HF_HOME", (folder_ / "hf").c_str(), 1);
    setenv("OLLAMA_MODELS", (folder_ / "ollama").c_str(), 1);
    setenv("HOME", (folder_ / "home").c_str(), 1);
    places_.model_folders = {folder_ / "none", folder_ / "bundled"};
  }
  void TearDown() override {
    unsetenv("HF_HOME");
    unsetenv("OLLAMA_MODELS");
    setenv("HOME", home_.c_str(), 1);
    fs::remove_all(folder_);
  }
  void write(const fs::path& file, const std::string& text = "x") {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const InstalledModel& model : installed_models(places_))
      found.push_back(std::string(model.place) + " " + model.name);
    return found;
  }

  std::string home_ = std::getenv("HOME");
  fs::path folder_ = fs::path(testing::TempDir()) / "nibble_installed_models";
  Places places_;
};

constexpr const char* kManifest{
    R"({"layers": [{"mediaType": "application/vnd.ollama.image.model",
                    "digest": "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]})"};

TEST_F(InstalledModelsTest, EveryStoreIsListedByTheNamesThatFindItsModels) {
  write("bundled/tiny-gpt-oss/model.safetensors");
  write("hf/hub/models--openai--gpt-oss-20b/snapshots/abc/model-00001.safetensors");
  write("hf/hub/models--some--other--name/snapshots/abc/m.gguf");
  write("hf/hub/models--no--weights/snapshots/abc/config.json");
  write("hf/hub/datasets--a--b/snapshots/abc/m.gguf");
  write("home/.lmstudio/models/me/mine/m.gguf");
  write("ollama/manifests/registry.ollama.ai/library/gpt-oss/20b", kManifest);
  write("ollama/manifests/registry.ollama.ai/me/mine/latest", kManifest);
  write("ollama/manifests/my.host/me/mine/v1", kManifest);
  EXPECT_THAT(names(), ElementsAre("Hugging Face openai/gpt-oss-20b", "Hugging Face some/other--name",
                                   "LM Studio me/mine", "Ollama gpt-oss:20b", "Ollama me/mine:latest",
                                   "Ollama my.host/me/mine:v1", "bundled tiny"));
  for (const InstalledModel& model : installed_models(places_))
    EXPECT_EQ(find_model(model.name, places_).path, model.path) << model.name;
}

TEST_F(InstalledModelsTest, ADamagedManifestIsListedWithItsFault) {
  write("ollama/manifests/registry.ollama.ai/library/gpt-oss/20b", "{");
  const std::vector<InstalledModel> models = installed_models(places_);
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].name, "gpt-oss:20b");
  EXPECT_NE(models[0].fault, "");
}

TEST_F(InstalledModelsTest, EachOfSeveralFilesHasItsPathAsName) {
  const fs::path snapshot = "hf/hub/models--a--b/snapshots/abc";
  for (const char* file : {"Q4.gguf", "Q8-00001-of-00002.gguf", "Q8-00002-of-00002.gguf"})
    write(snapshot / file);
  EXPECT_THAT(names(),
              ElementsAre("Hugging Face " + (folder_ / snapshot / "Q4.gguf").string(),
                          "Hugging Face " + (folder_ / snapshot / "Q8-00001-of-00002.gguf").string()));
}

TEST_F(InstalledModelsTest, AFolderIsSearchedOneLevelDeep) {
  write("models/a.gguf");
  write("models/b/model.safetensors");
  write("models/c/d/e.gguf");
  write("models/notes.txt");
  std::vector<std::string> found;
  for (const InstalledModel& model : models_in(folder_ / "models")) found.push_back(model.name);
  EXPECT_THAT(found, ElementsAre((folder_ / "models/a.gguf").string(), (folder_ / "models/b").string()));
  EXPECT_THAT(error_of([&] { models_in(folder_ / "nowhere"); }), HasSubstr("is not a folder"));
}

TEST_F(InstalledModelsTest, TheSizeIsThatOfAllParts) {
  write("a/model-1.safetensors", "12");
  write("a/model-2.safetensors", "345");
  write("a/config.json", "67890");
  write("b/m-00001-of-00002.gguf", "1234");
  write("b/m-00002-of-00002.gguf", "56");
  write("b/other.gguf", "7890123");
  EXPECT_EQ(file_bytes(folder_ / "a"), 5u);
  EXPECT_EQ(file_bytes(folder_ / "b/m-00001-of-00002.gguf"), 6u);
  EXPECT_EQ(file_bytes(folder_ / "b/other.gguf"), 7u);
  EXPECT_EQ(file_bytes(folder_ / "nowhere/x.gguf"), 0u);
}

}  // namespace
}  // namespace nibble
