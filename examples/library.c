/* Answers one question with libnibble: library MODEL QUESTION.
 * Build against an installed nibble: cc library.c $(pkg-config --cflags --libs nibble) -o library */
#include <nibble.h>
#include <stdio.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, nibble_last_error());
  return 1;
}

static int answer(nibble_session* session, const char* question) {
  if (nibble_session_send(session, question)) return fail("send");
  nibble_event event = {.struct_bytes = sizeof event};
  do {
    if (nibble_session_next_event(session, -1, &event)) return fail("answer");
    if (event.type == NIBBLE_EVENT_TEXT) fputs(event.text, stdout);
    fflush(stdout);
  } while (event.type != NIBBLE_EVENT_FINISHED);
  fprintf(stderr, "\n%d tokens in the prompt, %d in the answer\n", event.num_prompt_tokens,
          event.num_output_tokens);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL QUESTION\n", argv[0]);
    return 2;
  }
  nibble_options* options = NULL;
  nibble_model* model = NULL;
  nibble_session* session = NULL;
  int result = 1;
  /* Greedy: always the likeliest token. Options are the flags of `nibble run`. */
  if (nibble_options_create(&options) || nibble_options_set(options, "temperature", "0"))
    fail("options");
  else if (nibble_model_open(argv[1], options, &model))
    fail("model");
  else if (nibble_session_open(model, NULL, &session))
    fail("session");
  else
    result = answer(session, argv[2]);
  nibble_session_close(session);
  nibble_model_close(model);
  nibble_options_free(options);
  return result;
}
