/* decimal.h: adding JSON numbers digit by digit, so that 0.1 + 0.2 is 0.3. */
#ifndef DECIMAL_H
#define DECIMAL_H

#include "json.h"

/* Digits before and behind the point. */
#define WHOLE 160
#define FRACTION 160
#define DIGITS (WHOLE + FRACTION)

typedef struct {
    uint8_t negative;
    uint8_t digit[DIGITS]; /* the most significant first; the point is before digit[WHOLE] */
} decimal;

/* Reads a valid JSON number; 0 if it has digits that do not fit. */
static int decimal_read(channel_span number, decimal *read) {
    __builtin_memset(read, 0, sizeof *read);
    const char *at = number.at, *end = at + number.len;
    if (*at == '-') read->negative = 1, at++;
    const char *mantissa = at;
    int before = 0; /* digits before the point */
    while (at < end && *at >= '0' && *at <= '9') at++, before++;
    if (at < end && *at == '.')
        for (at++; at < end && *at >= '0' && *at <= '9';) at++;
    const char *mantissa_end = at;
    int exponent = 0;
    if (at < end) {
        at++;
        int negative = *at == '-';
        if (*at == '-' || *at == '+') at++;
        for (; at < end; at++) {
            exponent = exponent * 10 + (*at - '0');
            if (exponent > DIGITS) exponent = DIGITS; /* fits with no digit but a zero */
        }
        if (negative) exponent = -exponent;
    }
    int place = WHOLE - before - exponent;
    for (at = mantissa; at < mantissa_end; at++) {
        if (*at == '.') continue;
        uint8_t digit = (uint8_t)(*at - '0');
        if (digit) {
            if (place < 0 || place >= DIGITS) return 0;
            read->digit[place] = digit;
        }
        place++;
    }
    return 1;
}

/* Whether |a| is less than |b|. */
static int decimal_less(const decimal *a, const decimal *b) {
    for (uint32_t i = 0; i < DIGITS; i++)
        if (a->digit[i] != b->digit[i]) return a->digit[i] < b->digit[i];
    return 0;
}

/* a + b into `sum`; 0 if it does not fit. */
static int decimal_add(const decimal *a, const decimal *b, decimal *sum) {
    if (a->negative != b->negative && decimal_less(a, b)) {
        const decimal *swap = a;
        a = b;
        b = swap;
    }
    int subtract = a->negative != b->negative, carry = 0;
    sum->negative = a->negative;
    for (int i = DIGITS - 1; i >= 0; i--) {
        int digit = a->digit[i] + (subtract ? -b->digit[i] - carry : b->digit[i] + carry);
        carry = digit < 0 || digit > 9;
        sum->digit[i] = (uint8_t)(digit < 0 ? digit + 10 : digit > 9 ? digit - 10 : digit);
    }
    return !carry;
}

/* Adds a number to the line being sent, without needless zeros. */
static void decimal_put(const decimal *number) {
    char text[DIGITS + 2];
    uint32_t length = 0, first = 0, last = DIGITS;
    while (first < WHOLE - 1 && !number->digit[first]) first++;
    while (last > WHOLE && !number->digit[last - 1]) last--;
    int zero = first == WHOLE - 1 && last == WHOLE && !number->digit[first];
    if (number->negative && !zero) text[length++] = '-';
    for (uint32_t i = first; i < last; i++) {
        if (i == WHOLE) text[length++] = '.';
        text[length++] = (char)('0' + number->digit[i]);
    }
    channel_put((channel_span){text, length});
}

#endif
