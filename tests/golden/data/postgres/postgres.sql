SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE UNLOGGED TABLE public._by_key_1_2_0 (
    word text COLLATE pg_catalog."C",
    even boolean,
    day date,
    price numeric(10,2),
    ratio double precision,
    amount numeric(19,2),
    _key text NOT NULL COLLATE pg_catalog."C",
    _task bigint NOT NULL
)
WITH (autovacuum_enabled=off);
CREATE UNLOGGED TABLE public._by_key_1_3_0 (
    word text COLLATE pg_catalog."C",
    even boolean,
    day date,
    price numeric(10,2),
    ratio double precision,
    amount numeric(19,2),
    _key text NOT NULL COLLATE pg_catalog."C",
    _task bigint NOT NULL
)
WITH (autovacuum_enabled=off);
CREATE UNLOGGED TABLE public._by_key_1_4_0 (
    word text COLLATE pg_catalog."C",
    even boolean,
    day date,
    price numeric(10,2),
    ratio double precision,
    amount numeric(19,2),
    _key text NOT NULL COLLATE pg_catalog."C",
    _task bigint NOT NULL
)
WITH (autovacuum_enabled=off);
CREATE TABLE public._trident (
    state text NOT NULL,
    topology text NOT NULL,
    uuid text NOT NULL,
    incarnation bigint NOT NULL,
    fence bigint NOT NULL,
    owner text NOT NULL,
    columns text NOT NULL,
    txid bigint,
    epoch bigint,
    attempt_id bigint,
    run_first bigint
);
CREATE TABLE public.batches (
    batches text COLLATE pg_catalog."C",
    _key text NOT NULL COLLATE pg_catalog."C",
    _txid bigint NOT NULL,
    _prev text COLLATE pg_catalog."C",
    _born bigint NOT NULL
);
CREATE TABLE public.by_key (
    word text COLLATE pg_catalog."C",
    even boolean,
    day date,
    price numeric(10,2),
    ratio double precision,
    amount numeric(19,2),
    _key text NOT NULL COLLATE pg_catalog."C",
    _txid bigint NOT NULL,
    _prev numeric(19,2),
    _born bigint NOT NULL
);
INSERT INTO public._by_key_1_2_0 VALUES (NULL, true, '2020-02-28', 0.00, 0, 17867.85, '[null,true,{"date":"2020-02-28"},{"decimal":"0"},0.0]', 17);
INSERT INTO public._by_key_1_2_0 VALUES ('wörd ''1''', false, '2020-02-29', 0.25, 0.3333333333333333, 17875.00, '["wörd ''1''",false,{"date":"2020-02-29"},{"decimal":"0.25"},0.3333333333333333]', 17);
INSERT INTO public._by_key_1_2_0 VALUES ('wörd ''2''', true, '2020-02-28', 0.50, 0.6666666666666666, 17832.15, '["wörd ''2''",true,{"date":"2020-02-28"},{"decimal":"0.5"},0.6666666666666666]', 17);
INSERT INTO public._by_key_1_2_0 VALUES ('wörd ''4''', true, '2020-02-28', 1.00, 1.3333333333333333, 17846.43, '["wörd ''4''",true,{"date":"2020-02-28"},{"decimal":"1"},1.3333333333333333]', 17);
INSERT INTO public._by_key_1_2_0 VALUES ('wörd ''5''', false, '2020-02-29', 1.25, 1.6666666666666667, 17853.57, '["wörd ''5''",false,{"date":"2020-02-29"},{"decimal":"1.25"},1.6666666666666667]', 17);
INSERT INTO public._by_key_1_2_0 VALUES ('wörd ''6''', true, '2020-02-28', 1.50, 2, 17860.71, '["wörd ''6''",true,{"date":"2020-02-28"},{"decimal":"1.5"},2.0]', 17);
INSERT INTO public._by_key_1_2_0 VALUES ('wörd ''3''', false, '2020-02-29', 0.75, 1, 17839.29, '["wörd ''3''",false,{"date":"2020-02-29"},{"decimal":"0.75"},1.0]', 17);
INSERT INTO public._by_key_1_3_0 VALUES (NULL, true, '2020-02-28', 0.00, 0, 17867.85, '[null,true,{"date":"2020-02-28"},{"decimal":"0"},0.0]', 19);
INSERT INTO public._by_key_1_3_0 VALUES ('wörd ''1''', false, '2020-02-29', 0.25, 0.3333333333333333, 17875.00, '["wörd ''1''",false,{"date":"2020-02-29"},{"decimal":"0.25"},0.3333333333333333]', 19);
INSERT INTO public._by_key_1_3_0 VALUES ('wörd ''2''', true, '2020-02-28', 0.50, 0.6666666666666666, 17832.15, '["wörd ''2''",true,{"date":"2020-02-28"},{"decimal":"0.5"},0.6666666666666666]', 19);
INSERT INTO public._by_key_1_3_0 VALUES ('wörd ''4''', true, '2020-02-28', 1.00, 1.3333333333333333, 17846.43, '["wörd ''4''",true,{"date":"2020-02-28"},{"decimal":"1"},1.3333333333333333]', 19);
INSERT INTO public._by_key_1_3_0 VALUES ('wörd ''5''', false, '2020-02-29', 1.25, 1.6666666666666667, 17853.57, '["wörd ''5''",false,{"date":"2020-02-29"},{"decimal":"1.25"},1.6666666666666667]', 19);
INSERT INTO public._by_key_1_3_0 VALUES ('wörd ''6''', true, '2020-02-28', 1.50, 2, 17860.71, '["wörd ''6''",true,{"date":"2020-02-28"},{"decimal":"1.5"},2.0]', 19);
INSERT INTO public._by_key_1_3_0 VALUES ('wörd ''3''', false, '2020-02-29', 0.75, 1, 17839.29, '["wörd ''3''",false,{"date":"2020-02-29"},{"decimal":"0.75"},1.0]', 19);
INSERT INTO public._by_key_1_4_0 VALUES (NULL, true, '2020-02-28', 0.00, 0, 17867.85, '[null,true,{"date":"2020-02-28"},{"decimal":"0"},0.0]', 18);
INSERT INTO public._by_key_1_4_0 VALUES ('wörd ''1''', false, '2020-02-29', 0.25, 0.3333333333333333, 17875.00, '["wörd ''1''",false,{"date":"2020-02-29"},{"decimal":"0.25"},0.3333333333333333]', 18);
INSERT INTO public._by_key_1_4_0 VALUES ('wörd ''2''', true, '2020-02-28', 0.50, 0.6666666666666666, 17832.15, '["wörd ''2''",true,{"date":"2020-02-28"},{"decimal":"0.5"},0.6666666666666666]', 18);
INSERT INTO public._by_key_1_4_0 VALUES ('wörd ''4''', true, '2020-02-28', 1.00, 1.3333333333333333, 17846.43, '["wörd ''4''",true,{"date":"2020-02-28"},{"decimal":"1"},1.3333333333333333]', 18);
INSERT INTO public._by_key_1_4_0 VALUES ('wörd ''5''', false, '2020-02-29', 1.25, 1.6666666666666667, 17853.57, '["wörd ''5''",false,{"date":"2020-02-29"},{"decimal":"1.25"},1.6666666666666667]', 18);
INSERT INTO public._by_key_1_4_0 VALUES ('wörd ''6''', true, '2020-02-28', 1.50, 2, 17860.71, '["wörd ''6''",true,{"date":"2020-02-28"},{"decimal":"1.5"},2.0]', 18);
INSERT INTO public._by_key_1_4_0 VALUES ('wörd ''3''', false, '2020-02-29', 0.75, 1, 17839.29, '["wörd ''3''",false,{"date":"2020-02-29"},{"decimal":"0.75"},1.0]', 18);
INSERT INTO public._trident VALUES ('by_key', 'golden-postgres', '913dffa9-6dfe-4376-9eae-7fc7a8fd8cdd', 1, 1, '82c9f8801119424db1fa4c038464330a', 'word string, even boolean, day date, price decimal(10,2), ratio double, amount decimal(19,2)', 1, 1, 0, 1);
INSERT INTO public._trident VALUES ('batches', 'golden-postgres', '913dffa9-6dfe-4376-9eae-7fc7a8fd8cdd', 1, 1, '33b6913e417048c68ca246013d2e9621', 'batches string', 1, 1, 0, 1);
INSERT INTO public.batches VALUES ('1;', '[]', 1, NULL, 1);
INSERT INTO public.by_key VALUES (NULL, true, '2020-02-28', 0.00, 0, 17867.85, '[null,true,{"date":"2020-02-28"},{"decimal":"0"},0.0]', 1, NULL, 1);
INSERT INTO public.by_key VALUES ('wörd ''1''', false, '2020-02-29', 0.25, 0.3333333333333333, 17875.00, '["wörd ''1''",false,{"date":"2020-02-29"},{"decimal":"0.25"},0.3333333333333333]', 1, NULL, 1);
INSERT INTO public.by_key VALUES ('wörd ''2''', true, '2020-02-28', 0.50, 0.6666666666666666, 17832.15, '["wörd ''2''",true,{"date":"2020-02-28"},{"decimal":"0.5"},0.6666666666666666]', 1, NULL, 1);
INSERT INTO public.by_key VALUES ('wörd ''4''', true, '2020-02-28', 1.00, 1.3333333333333333, 17846.43, '["wörd ''4''",true,{"date":"2020-02-28"},{"decimal":"1"},1.3333333333333333]', 1, NULL, 1);
INSERT INTO public.by_key VALUES ('wörd ''5''', false, '2020-02-29', 1.25, 1.6666666666666667, 17853.57, '["wörd ''5''",false,{"date":"2020-02-29"},{"decimal":"1.25"},1.6666666666666667]', 1, NULL, 1);
INSERT INTO public.by_key VALUES ('wörd ''6''', true, '2020-02-28', 1.50, 2, 17860.71, '["wörd ''6''",true,{"date":"2020-02-28"},{"decimal":"1.5"},2.0]', 1, NULL, 1);
INSERT INTO public.by_key VALUES ('wörd ''3''', false, '2020-02-29', 0.75, 1, 17839.29, '["wörd ''3''",false,{"date":"2020-02-29"},{"decimal":"0.75"},1.0]', 1, NULL, 1);
ALTER TABLE ONLY public._trident
    ADD CONSTRAINT _trident_pkey PRIMARY KEY (state);
ALTER TABLE ONLY public.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (_key);
ALTER TABLE ONLY public.by_key
    ADD CONSTRAINT by_key_pkey PRIMARY KEY (_key);
