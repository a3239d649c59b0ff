/* Numbers as text. */
#ifndef SS_CORE_NUMBER_H
#define SS_CORE_NUMBER_H

enum { SS_NUMBER_ROOM = 32 };

/* As people write it: in 15 digits, or in 17 where reading these makes another number. Returns
 * text. */
const char *ss_number_text(double v, char text[SS_NUMBER_ROOM]);

/* The double of the fewest decimal digits that is this float: 0.485, not 0.485000014. */
double ss_number_of_float(float v);

#endif
