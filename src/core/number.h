/* Numbers as text. */
#ifndef SS_CORE_NUMBER_H
#define SS_CORE_NUMBER_H

enum { SS_NUMBER_CAPACITY = 32 };

/* Format v with 15 digits, or with 17 if 15 do not read back as v. Returns text. */
const char *ss_number_text(double v, char text[SS_NUMBER_CAPACITY]);

/* Return the double with the fewest decimal digits that rounds to this float: 0.485, not
 * 0.485000014. */
double ss_number_of_float(float v);

#endif
