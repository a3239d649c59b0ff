/* words.h: runs commands given as one string, for tests of commands. */
#ifndef SS_TESTS_WORDS_H
#define SS_TESTS_WORDS_H

#include "apps/starstep-cli.h"

#include <stdio.h>
#include <string.h>

enum { WORDS = 64 };

/* Splits a command into words, ended by NULL, in place. Returns the number of words. */
static inline int split_words(char *command, char *words[WORDS + 1])
{
    int n = 0;
    for (char *save, *word = strtok_r(command, " ", &save); word && n < WORDS;
         word = strtok_r(NULL, " ", &save))
        words[n++] = word;
    words[n] = NULL;
    return n;
}

/* Runs "starstep ..." in this process. Returns its exit code. */
static inline int run_here(const char *command)
{
    char text[4096], *words[WORDS + 1];
    snprintf(text, sizeof text, "%s", command);
    return ss_main(split_words(text, words), words);
}

#endif
