-- Local item suggestion: who sells in some states, in a category..
-- The benchmark keeps persons for ever; here an auction is paired with a person of the 10 s before.
SELECT P.name, P.city, P.state, A.id
FROM auction AS A
JOIN person AS P ON A.seller = P.id AND A.time BETWEEN P.time AND P.time + INTERVAL '10' SECOND
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')
